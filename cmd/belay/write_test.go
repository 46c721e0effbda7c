package main

import (
	"strings"
	"testing"

	"github.com/belay-mq/belay/registry/control"
)

func TestWarningsAreSaidOnce(t *testing.T) {
	about := []control.Warning{
		{Code: "bad-escape", App: "settle", Text: "settle takes this file as absent"},
		{Code: "again", App: "order", Text: "the listenerId stands there twice"},
	}
	p := &control.Plan{
		Warnings: append(about, control.Warning{Code: "audit", Text: "the audit log cannot be written"}),
		Files:    []control.FilePlan{{App: "settle", Warnings: about[:1]}, {App: "order", Warnings: about[1:]}},
	}
	var said strings.Builder
	(&globals{streams: streams{err: &said}}).explain(p)
	const want = "warning: settle takes this file as absent\nwarning: order: the listenerId stands there twice\nwarning: the audit log cannot be written\n"
	if said.String() != want {
		t.Errorf("said %q, want %q", said.String(), want)
	}
}
