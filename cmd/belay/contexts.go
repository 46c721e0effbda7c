package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/belay-mq/belay/cmd/belay/internal/config"
)

// exampleConfig is what 'belay init' writes.
const exampleConfig = `# Contexts of belay. Values may take ${NAME} from the environment.
current-context: prod
contexts:
  prod:
    label: PROD                    # shown on every screen and in each confirmation
    nacos:
      servers: [localhost:8848]
      # namespace: prod            # empty and public are the same
      # username: oncall
      # password: ${NACOS_PASSWORD}
      # applications: [settle-service, {name: order-service, vhost: orders}]   # absent: found by data id
    rabbitmq:
      url: amqp://guest:guest@localhost:5672/
      # management: http://guest:guest@localhost:15672   # rates, graphs, who consumes
    # releases:
    #   dsn: mysql://reader:${DB_PASSWORD}@localhost:3306/ApolloConfigDB
    writes:
      read-only: true              # look first; then take this line out
      require-reason: true
      type-context-name: false
`

func newInitCmd(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "init", Short: "Write a configuration to fill in", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path := config.Path(g.config)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return fmt.Errorf("make the configuration's directory: %w", err)
			}
			f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if errors.Is(err, fs.ErrExist) {
				return usageError("%s is there already; belay leaves it as it is", path)
			}
			if err != nil {
				return fmt.Errorf("write the configuration: %w", err)
			}
			_, err = f.WriteString(exampleConfig)
			if err = errors.Join(err, f.Close()); err != nil {
				return fmt.Errorf("write the configuration: %w", err)
			}
			_, err = fmt.Fprintf(g.out, "wrote %s; fill it in, then 'belay doctor' checks every connection\n", path)
			return err
		},
	}
}

// contextInfo is one context in the output of 'belay contexts'.
type contextInfo struct {
	Name     string   `json:"name"`
	Label    string   `json:"label"`
	Current  bool     `json:"current"`
	Parts    []string `json:"parts"`
	ReadOnly bool     `json:"readOnly"`
}

func newContextsCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{Use: "contexts", Short: "List the contexts of the configuration", Args: cobra.NoArgs}
	o := addOutput(cmd, "table", "json", "yaml", "name")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := o.check(); err != nil {
			return err
		}
		f, err := config.Load(config.Path(g.config))
		if err != nil {
			return err
		}
		list := []contextInfo{}
		var rows [][]string
		for _, name := range f.Names() {
			c := f.Contexts[name]
			info := contextInfo{Name: name, Label: c.Label, Current: name == f.CurrentContext, Parts: partsOf(c), ReadOnly: c.Writes.ReadOnly}
			list = append(list, info)
			mark := ""
			if info.Current {
				mark = "*"
			}
			rows = append(rows, []string{mark, name, c.Label, strings.Join(info.Parts, ", ")})
			if o.format == "name" {
				fmt.Fprintln(g.out, name)
			}
		}
		if o.format == "name" {
			return nil
		}
		if done, err := o.structured(g.out, list); done {
			return err
		}
		return printTable(g.out, []string{"", "NAME", "LABEL", "PARTS"}, nil, rows)
	}
	return cmd
}

func partsOf(c *config.Context) []string {
	parts := []string{}
	if c.Nacos != nil {
		parts = append(parts, "nacos")
	}
	if c.RabbitMQ != nil {
		parts = append(parts, "rabbitmq")
	}
	if c.Releases != nil {
		parts = append(parts, "releases")
	}
	return parts
}

func newUseCmd(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "use CONTEXT", Short: "Make a context the current one", Args: cobra.ExactArgs(1), ValidArgsFunction: g.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			path := config.Path(g.config)
			f, err := config.Load(path)
			if err != nil {
				return err
			}
			if f.Contexts[args[0]] == nil {
				return usageError("%s: there is no context %q; there are %s", path, args[0], strings.Join(f.Names(), ", "))
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("read the configuration: %w", err)
			}
			changed, err := config.WithCurrent(path, data, args[0])
			if err != nil {
				return err
			}
			if err := writeInPlace(path, changed); err != nil {
				return err
			}
			_, err = fmt.Fprintf(g.out, "the current context is %s\n", args[0])
			return err
		},
	}
}

func newConfigCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Look at the configuration"}
	show := &cobra.Command{Use: "show", Short: "Show the configuration as it is read, secrets masked", Args: cobra.NoArgs}
	o := addOutput(show, "yaml", "json")
	show.RunE = func(*cobra.Command, []string) error {
		if err := o.check(); err != nil {
			return err
		}
		f, err := config.Load(config.Path(g.config))
		if err != nil {
			return err
		}
		fmt.Fprintf(g.err, "# %s\n", f.Path)
		text, err := yaml.Marshal(f)
		if err != nil {
			return fmt.Errorf("show the configuration: %w", err)
		}
		if o.format == "json" {
			if text, err = yaml.YAMLToJSON(text); err != nil {
				return fmt.Errorf("show the configuration: %w", err)
			}
		}
		_, err = g.out.Write(text)
		return err
	}
	cmd.AddCommand(show)
	return cmd
}
