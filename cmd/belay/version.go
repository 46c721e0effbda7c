package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by a release build (-ldflags "-X main.version=…").
var version = ""

type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersionCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Show the version of belay", Args: cobra.NoArgs}
	o := addOutput(cmd, "table", "json", "yaml")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := o.check(); err != nil {
			return err
		}
		v := readVersion()
		if done, err := o.structured(g.out, v); done {
			return err
		}
		line := "belay " + v.Version
		if v.Revision != "" {
			line += " (" + v.Revision + ")"
		}
		_, err := fmt.Fprintf(g.out, "%s %s %s\n", line, v.Go, v.Platform)
		return err
	}
	return cmd
}

func readVersion() versionInfo {
	v := versionInfo{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				v.Revision = s.Value[:12]
			}
		}
		if v.Version == "" {
			v.Version = info.Main.Version
		}
	}
	if v.Version == "" {
		v.Version = "(devel)"
	}
	return v
}
