package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	commandTimeout = 5 * time.Second
	longestOutage  = 10 * time.Minute
)

func commandSocket(dir string) string { return filepath.Join(dir, "demo.sock") }

// serveCommands takes orders for outages from other processes over a socket in the
// demo's directory: one line "outage NAME DURATION", answered with "ok" or the error.
func (d *Demo) serveCommands(ctx context.Context) error {
	path := commandSocket(d.cfg.Dir)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("demo commands: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("demo commands: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("demo commands: %w", err)
		}
		wg.Go(func() {
			defer c.Close()
			if err := guarded("demo command", func() error { return d.command(ctx, &wg, c) }); err != nil {
				fmt.Fprintln(c, err)
				return
			}
			fmt.Fprintln(c, "ok")
		})
	}
}

func (d *Demo) command(ctx context.Context, wg *sync.WaitGroup, c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(commandTimeout)); err != nil {
		return err
	}
	line, err := bufio.NewReaderSize(c, 256).ReadString('\n')
	if err != nil {
		return err
	}
	words := strings.Fields(line)
	if len(words) != 3 || words[0] != "outage" {
		return errors.New("want: outage NAME DURATION")
	}
	lasts, err := time.ParseDuration(words[2])
	if err != nil || lasts <= 0 || lasts > longestOutage {
		return fmt.Errorf("%q is no duration up to %s", words[2], longestOutage)
	}
	if err := d.SetDown(words[1], true); err != nil {
		return err
	}
	wg.Go(func() {
		if err := d.Outage(ctx, words[1], lasts); err != nil {
			d.log.Error("outage", "error", err)
		}
	})
	return nil
}

// OrderOutage asks the demo that runs in dir to take a server down for a time.
func OrderOutage(ctx context.Context, dir, name string, lasts time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "unix", commandSocket(dir))
	if err != nil {
		return fmt.Errorf("no demo runs in %s (--dir names another directory): %w", dir, err)
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(c, "outage %s %s\n", name, lasts); err != nil {
		return err
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the demo did not answer: %w", err)
	}
	if answer = strings.TrimSpace(answer); answer != "ok" {
		return errors.New(answer)
	}
	return nil
}
