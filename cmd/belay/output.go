package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/belay-mq/belay/registry/presence"
)

// output is the -o flag.
type output struct {
	format string
	allow  []string
}

func addOutput(cmd *cobra.Command, allow ...string) *output {
	o := &output{allow: allow}
	cmd.Flags().StringVarP(&o.format, "output", "o", allow[0], "output `format`: "+strings.Join(allow, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(allow, cobra.ShellCompDirectiveNoFileComp))
	return o
}

func (o *output) check() error {
	if !slices.Contains(o.allow, o.format) {
		return usageError("-o %s: use one of %s", o.format, strings.Join(o.allow, ", "))
	}
	return nil
}

// structured writes v as JSON or YAML and reports whether the format asked for it.
func (o *output) structured(w io.Writer, v any) (bool, error) {
	switch o.format {
	case "json":
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return true, e.Encode(v)
	case "yaml":
		// By way of JSON, so that both have the same names.
		text, err := json.Marshal(v)
		if err != nil {
			return true, err
		}
		out, err := yaml.JSONToYAML(text)
		if err != nil {
			return true, err
		}
		_, err = w.Write(out)
		return true, err
	}
	return false, nil
}

// printTable writes rows under a header, columns aligned by display width. Columns
// named in right are numbers. Outside text is stripped of control characters.
func printTable(w io.Writer, header []string, right map[string]bool, rows [][]string) error {
	widths := make([]int, len(header))
	all := append([][]string{header}, rows...)
	for _, row := range all {
		for i := range row {
			row[i] = presence.Clean(row[i], 500)
			widths[i] = max(widths[i], ansi.StringWidth(row[i]))
		}
	}
	var b strings.Builder
	for _, row := range all {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-ansi.StringWidth(cell))
			if right[header[i]] {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
			line.WriteString("  ")
		}
		fmt.Fprintln(&b, strings.TrimRight(line.String(), " "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
