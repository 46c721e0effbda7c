package app

import (
	"fmt"
	"strings"
	"time"

	"github.com/belay-mq/belay/registry/fleet"
)

// health tells how the parts of the backend fare, in the order of the header.
func (b *Backend) health() []fleet.Health {
	out := append([]fleet.Health{b.nacosHealth(), b.rabbitHealth()}, b.releaseHealth()...)
	for _, v := range b.vhost {
		named := len(b.vhost) > 1
		out = append(out, v.presenceHealth(named), v.observerHealth(named))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return append(out, b.ended...)
}

func (b *Backend) nacosHealth() fleet.Health {
	h := fleet.Health{Name: "nacos", State: fleet.HealthAbsent, Text: "not configured"}
	if b.store == nil {
		return h
	}
	s := b.store.Health()
	h.Since, h.LastOK, h.Latency, h.Err = s.Since, s.LastOK, s.Latency, s.LastErr
	h.Text = s.Transport
	if s.Server != "" {
		h.Text = s.Server + ", " + s.Transport
	}
	h.State = fleet.HealthOK
	if !s.Connected {
		h.State = fleet.HealthDown
		h.Advice = "toggles stay as last applied; check the address, the login and that the server runs"
	}
	h.Counters = []fleet.Counter{
		{Name: "polls", Value: int64(s.Polls)}, {Name: "pushes", Value: int64(s.Pushes)}, {Name: "sdk clients", Value: int64(s.SDKClients)},
		{Name: "conflicts", Value: int64(s.Conflicts)}, {Name: "retries", Value: int64(s.Retries)},
	}
	return h
}

func (b *Backend) rabbitHealth() fleet.Health {
	h := fleet.Health{Name: "rabbit", State: fleet.HealthAbsent, Text: "not configured"}
	if len(b.vhost) == 0 {
		return h
	}
	h.State = fleet.HealthOK
	h.Text = b.vhost[0].conn.String()
	for _, v := range b.vhost {
		c := v.conn.Health()
		if h.Since.IsZero() {
			h.Since = c.Since
		}
		if c.Connected {
			h.LastOK = time.Now()
			if c.Blocked {
				h.Text = "a broker alarm holds publishers back"
			}
			continue
		}
		h.State, h.Since, h.Err = fleet.HealthDown, c.Since, c.LastError
		h.Text = fmt.Sprintf("attempt %d", c.Attempts)
		if !c.NextTry.IsZero() {
			h.Text += ", next try in " + fleet.Short(time.Until(c.NextTry))
		}
		h.Advice = "paused stays paused; check the address and that the broker runs"
		if c.Refused {
			h.Advice = "the broker refuses the login, the virtual host or a permission; check the url"
		}
		break
	}
	return h
}

func (v *vhost) presenceHealth(named bool) fleet.Health {
	p := v.presence.Health()
	h := fleet.Health{Name: "presence", State: fleet.HealthOK, Since: p.Since, LastOK: p.LastReport, Err: p.Err}
	h.Text = fmt.Sprintf("%d instances", p.Instances)
	if named {
		h.Text += " on " + v.name
	}
	switch {
	case p.Blocked:
		h.State, h.Text = fleet.HealthStale, "reports held back by a broker alarm"
	case !p.Collecting:
		h.State = fleet.HealthDown
		h.Advice = "no reports of instances are received; they come back with the broker"
	}
	h.Counters = []fleet.Counter{{Name: "sent", Value: int64(p.Sent)}, {Name: "rejected", Value: int64(p.Rejected)}}
	return h
}

// observerHealth is that of the management API; passive declares fare as the connection
// does.
func (v *vhost) observerHealth(named bool) fleet.Health {
	o := v.observer.Health()
	m := o.Management
	h := fleet.Health{
		Name: "management", State: fleet.HealthOK, Since: m.Since, LastOK: m.LastOK, Latency: m.Latency,
		Err: m.Err, Advice: m.Advice, Text: m.Version,
	}
	if named {
		h.Text = strings.TrimSpace(h.Text + " on " + v.name)
	}
	switch {
	case !m.Configured:
		h.State, h.Text = fleet.HealthAbsent, "not configured; queues are read by passive declare"
	case m.Since.IsZero() && m.Err == "":
		h.Text = "nothing was asked yet"
	case !m.OK:
		h.State = fleet.HealthDown
	}
	if !o.Declare.OK && o.Declare.Err != "" {
		h.Counters = append(h.Counters, fleet.Counter{Name: "declares fail", Value: 1})
	}
	return h
}
