package control_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/consumers/broker"
	"github.com/belay-mq/belay/consumers/observe"
	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry/control"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/presence"
	amqp "github.com/rabbitmq/amqp091-go"
)

// rabbit is a broker under test with its management API, both with user and password.
type rabbit struct{ url, management, vhost string }

// onBrokers runs a test on the embedded broker, and on RabbitMQ where
// BELAY_TEST_AMQP names one, in a vhost of its own.
func onBrokers(t *testing.T, f func(*testing.T, rabbit)) {
	t.Run("embedded", func(t *testing.T) {
		b, err := broker.Listen(t.Context(), broker.Config{ManagementAddr: "127.0.0.1:0", StatsInterval: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := b.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		f(t, rabbit{b.URL(), strings.Replace(b.ManagementURL(), "://", "://guest:guest@", 1), "/"})
	})
	t.Run("rabbitmq", func(t *testing.T) {
		r := rabbit{url: os.Getenv("BELAY_TEST_AMQP"), management: strings.TrimRight(os.Getenv("BELAY_TEST_AMQP_MANAGEMENT"), "/")}
		if r.url == "" || r.management == "" {
			if os.Getenv("BELAY_TEST_REAL") == "1" {
				t.Fatal("BELAY_TEST_AMQP and BELAY_TEST_AMQP_MANAGEMENT not set, and BELAY_TEST_REAL=1 asks for them")
			}
			t.Skip("BELAY_TEST_AMQP or BELAY_TEST_AMQP_MANAGEMENT not set")
		}
		r.vhost = fmt.Sprintf("control-%d", os.Getpid())
		r.call(t, http.MethodPut, "/api/vhosts/"+r.vhost)
		t.Cleanup(func() { r.call(t, http.MethodDelete, "/api/vhosts/"+r.vhost) })
		u, err := url.Parse(r.url)
		if err != nil {
			t.Fatal(err)
		}
		u.Path = "/" + r.vhost
		r.url = u.String()
		f(t, r)
	})
}

func (r rabbit) call(t *testing.T, method, path string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, r.management+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %s", method, path, resp.Status)
	}
}

// hanging is a listener of a quorum queue with a delivery limit whose handler does not
// return before its context ends; each stop gives the message back.
func hanging(t *testing.T, conn *consumers.Conn, queue string, limit int) *consumers.Container {
	t.Helper()
	ch, err := conn.PublishChannel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	args := amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(limit)}
	if _, err := ch.QueueDeclare(queue, true, false, false, false, args); err != nil {
		t.Fatal(err)
	}
	if err := ch.PublishWithContext(t.Context(), "", queue, false, false, amqp.Publishing{MessageId: "stuck", Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	c, err := consumers.New(conn, consumers.Config{ListenerID: "PayoutConsumer", Queues: []string{queue}, ShutdownTimeout: 50 * time.Millisecond},
		func(ctx context.Context, _ *consumers.Delivery) error {
			<-ctx.Done()
			return consumers.Requeue(context.Cause(ctx))
		})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestAPauseNearTheDeliveryLimitIsAHazard pauses a listener whose handler hangs until
// its message has come back as often as its queue allows: the plan of the next pause,
// which would be the message's end, names the queue and the count. All parts are real:
// container, reports, observer, fleet and control.
func TestAPauseNearTheDeliveryLimitIsAHazard(t *testing.T) {
	onBrokers(t, func(t *testing.T, r rabbit) {
		const queue, limit = "payouts", 3
		conn, err := consumers.Dial(t.Context(), consumers.ConnConfig{URL: r.url, App: toggles.Group})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := conn.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		c := hanging(t, conn, queue, limit)
		p := presence.New(presence.Config{Conn: conn, Interval: 100 * time.Millisecond})
		c.OnChange(p.Changed)
		watch, err := observe.New(observe.Config{Conn: conn, Management: observe.Secret(r.management), ManagementInterval: 100 * time.Millisecond, VHost: r.vhost})
		if err != nil {
			t.Fatal(err)
		}
		store := open(t, 1)[0]
		if _, err := store.Create(t.Context(), toggles, nacos.Content{Text: "# none yet\n"}); err != nil {
			t.Fatal(err)
		}
		all := fleet.New(fleet.Config{
			Apps:    []fleet.AppConfig{{Name: toggles.Group, DataID: toggles.DataID, VHost: r.vhost}},
			Brokers: []fleet.Broker{{VHost: r.vhost, Presence: p, Observer: watch}},
			Store:   store,
		})
		ctl := control.New(control.Config{App: toggles.Group, AuditDir: t.TempDir(), Fleet: all, Operator: "user", Store: store})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer func() {
			cancel()
			wg.Wait()
			if err := ctl.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		for _, run := range []func(context.Context) error{
			p.Collect, watch.Run, all.Run,
			func(ctx context.Context) error {
				return p.Send(ctx, func() presence.Report {
					return presence.Report{Listeners: []presence.ListenerReport{presence.Of(c.Status())}}
				})
			},
		} {
			wg.Go(func() {
				if err := run(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			})
		}
		hazard := func(want string) {
			t.Helper()
			var got []observe.Hazard
			defer func() {
				if t.Failed() {
					t.Logf("hazards: %+v, container: %+v", got, c.Status())
				}
			}()
			until(t, "a pause has the hazard: "+want, func() bool {
				plan, err := ctl.Plan(t.Context(), control.Intent{Op: control.Pause, ID: fleet.ID{App: toggles.Group, Listener: "PayoutConsumer"}, Reason: "late"})
				if err != nil {
					t.Fatal(err)
				}
				got = plan.Hazards
				for _, h := range got {
					if h.Code == observe.CodeDeliveryLimit && h.Queue == (observe.QueueID{VHost: r.vhost, Name: queue}) && strings.HasPrefix(h.Text, "queue "+queue+": ") && strings.Contains(h.Text, want) {
						return true
					}
				}
				return false
			})
		}
		for n := range limit + 1 {
			if err := c.Start(t.Context(), consumers.Cause{By: "test"}); err != nil {
				t.Fatal(err)
			}
			until(t, "the message is here again", func() bool { s := c.Status(); return s.InFlight == 1 && s.MaxDeliveryCount == n })
			switch n {
			case 0:
				hazard("delivery limit 3: messages that a pause gives back")
			case limit:
				hazard("delivery limit 3 is reached (x-delivery-count 3)")
				return
			default:
				hazard(fmt.Sprintf("delivery limit 3, x-delivery-count is %d already", n))
			}
			if report, err := c.Stop(t.Context(), consumers.Cause{By: "test"}); err != nil || report.Requeued != 1 {
				t.Fatalf("%+v, %v", report, err)
			}
		}
	})
}
