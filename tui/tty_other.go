//go:build !unix

package tui

import (
	"errors"
	"os"
)

var ends = []os.Signal{os.Interrupt}

func wantsStacks(os.Signal) bool { return false }

func stopProcess() error { return errors.New("this system cannot suspend a program") }

func divert(string) (*os.File, func()) { return os.Stdout, func() {} }

func watch(string) func() { return func() {} }
