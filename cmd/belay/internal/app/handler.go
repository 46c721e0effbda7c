package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/registry/presence"
)

const (
	handlerTimeout = 30 * time.Second
	// shownOutput is how much of what a failed command printed is kept.
	shownOutput = 500
)

// handler makes the handler that a listener declares.
func (s ListenerSpec) handler(log *slog.Logger) consumers.Handler {
	log = log.With("listener", s.ID)
	switch h := s.Handler; {
	case h.Log:
		return func(_ context.Context, d *consumers.Delivery) error {
			log.Info("message", "queue", d.Queue, "message_id", presence.Clean(d.MessageId, 100), "bytes", len(d.Body),
				"redelivered", d.Redelivered, "body", presence.Clean(string(d.Body[:min(len(d.Body), 4*shownOutput)]), shownOutput))
			return nil
		}
	case h.Exec != nil:
		return h.Exec.run
	case h.HTTP != nil:
		client := s.client()
		return func(ctx context.Context, d *consumers.Delivery) error { return h.HTTP.post(ctx, client, d) }
	}
	return func(context.Context, *consumers.Delivery) error { return nil }
}

// client keeps a connection for each consumer. It follows no redirect: a POST would
// become a GET without the message.
func (s ListenerSpec) client() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = max(s.Concurrency.Max, 1)
	return &http.Client{
		Transport: t, Timeout: orDuration(s.Handler.HTTP.Timeout),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func orDuration(d Duration) time.Duration {
	if d == 0 {
		return handlerTimeout
	}
	return time.Duration(d)
}

// run gives a message to the command. What is known of the message is in its
// environment as BELAY_QUEUE, BELAY_MESSAGE_ID, BELAY_ROUTING_KEY, BELAY_REDELIVERED.
// Where the command cannot be started, or is killed from outside, the message goes back:
// nobody has said anything of it.
func (e *ExecSpec) run(ctx context.Context, d *consumers.Delivery) error {
	limit := orDuration(e.Timeout)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, e.Command[0], e.Command[1:]...)
	cmd.WaitDelay = time.Second
	ownGroup(cmd)
	cmd.Stdin = bytes.NewReader(d.Body)
	cmd.Env = append(os.Environ(), "BELAY_QUEUE="+variable(d.Queue), "BELAY_MESSAGE_ID="+variable(d.MessageId),
		"BELAY_ROUTING_KEY="+variable(d.RoutingKey), "BELAY_REDELIVERED="+strconv.FormatBool(d.Redelivered))
	out, err := cmd.CombinedOutput()
	said := presence.Clean(strings.TrimSpace(string(out)), shownOutput)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrWaitDelay): // exit status 0; what it left running holds its output
		return nil
	case cmd.Process == nil:
		return consumers.Requeue(fmt.Errorf("%w: %s could not be started: %w", errStatus, e.Command[0], err))
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%w: %s was ended after %s: %s", errStatus, e.Command[0], limit, said)
	case !cmd.ProcessState.Exited():
		return consumers.Requeue(fmt.Errorf("%w: %s was killed: %w: %s", errStatus, e.Command[0], err, said))
	}
	return fmt.Errorf("%w: %s: %w: %s", errStatus, e.Command[0], err, said)
}

// variable makes text fit for an environment variable.
func variable(text string) string { return strings.ReplaceAll(text, "\x00", "") }

// post sends a message. Where nobody is there to look at it, it goes back.
func (h *HTTPSpec) post(ctx context.Context, client *http.Client, d *consumers.Delivery) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(d.Body))
	if err != nil {
		return fmt.Errorf("%w: %w", errStatus, err)
	}
	contentType := d.ContentType
	if contentType == "" {
		contentType = "application/octet-stream"
	}
	req.Header.Set("Content-Type", presence.Clean(contentType, 200))
	req.Header.Set("X-Belay-Queue", presence.Clean(d.Queue, 255))
	req.Header.Set("X-Belay-Message-Id", presence.Clean(d.MessageId, 255))
	req.Header.Set("X-Belay-Redelivered", strconv.FormatBool(d.Redelivered))
	resp, err := client.Do(req)
	if err != nil {
		return consumers.Requeue(fmt.Errorf("%w: %w", errStatus, err))
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, shownOutput))
	if resp.StatusCode/100 == 2 {
		return nil
	}
	err = fmt.Errorf("%w: %s answered %s: %s", errStatus, h.URL, resp.Status, presence.Clean(string(body), shownOutput))
	if unheard(resp.StatusCode) {
		return consumers.Requeue(err)
	}
	return err
}

// unheard tells that a status says nothing of the message: the address is wrong, it
// lets nobody in, or what stands behind it is away.
func unheard(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return status/100 == 3
}
