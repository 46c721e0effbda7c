package consumers

import "github.com/prometheus/client_golang/prometheus"

// Collector exports containers to Prometheus. Register it where the program
// keeps its metrics; it opens no port. All metrics carry the label listener.
//
//	belay_consumer_consumers             consumers subscribed
//	belay_consumer_draining              consumers finishing what they hold
//	belay_consumer_in_flight             messages delivered and not yet settled
//	belay_consumer_handled_total         messages whose handler returned nil
//	belay_consumer_failed_total          messages whose handler failed or panicked
//	belay_consumer_requeued_total        messages given back to the broker
//	belay_consumer_redelivered_total     deliveries flagged as redelivered
//	belay_consumer_stale_acks_total      settlements refused, their session had ended
//	belay_consumer_state                 1 for the present state (label state), 0 for the others
//	belay_consumer_blocked               1 while the broker holds back publishers
//	belay_consumer_scalings_total        decisions on the backlog (label direction: up, down)
type Collector struct {
	list func() []*Container
}

// NewCollector returns a collector of the containers that list returns at each
// scrape. list is called by Prometheus's goroutines and must not block.
func NewCollector(list func() []*Container) *Collector { return &Collector{list: list} }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("belay_consumer_"+name, help, append([]string{"listener"}, labels...), nil)
}

var (
	descConsumers   = desc("consumers", "Consumers subscribed.")
	descDraining    = desc("draining", "Consumers that are cancelled and finish what they hold.")
	descInFlight    = desc("in_flight", "Messages delivered and not yet settled.")
	descHandled     = desc("handled_total", "Messages whose handler returned nil.")
	descFailed      = desc("failed_total", "Messages whose handler returned an error or panicked.")
	descRequeued    = desc("requeued_total", "Messages given back to the broker.")
	descRedelivered = desc("redelivered_total", "Deliveries flagged as redelivered.")
	descStale       = desc("stale_acks_total", "Settlements refused because their session had ended.")
	descState       = desc("state", "1 for the present state of the container.", "state")
	descBlocked     = desc("blocked", "1 while the broker holds back publishers.")
	descScalings    = desc("scalings_total", "Decisions to change the number of consumers on the backlog.", "direction")
)

// allStates are the states in the order of their declaration.
var allStates = []State{Stopped, Starting, Running, Draining, Recovering, MissingQueue, Refused, Failed}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descConsumers, descDraining, descInFlight, descHandled, descFailed, descRequeued,
		descRedelivered, descStale, descState, descBlocked, descScalings,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	for _, container := range c.list() {
		container.collect(ch)
	}
}

func (c *Container) collect(ch chan<- prometheus.Metric) {
	st := c.Status()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, append([]string{st.ListenerID}, labels...)...)
	}
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	send(descConsumers, gauge, float64(st.Consumers))
	send(descDraining, gauge, float64(st.Draining))
	send(descInFlight, gauge, float64(st.InFlight))
	send(descHandled, counter, float64(st.Handled))
	send(descFailed, counter, float64(st.Failed))
	send(descRequeued, counter, float64(st.Requeued))
	send(descRedelivered, counter, float64(st.Redelivered))
	send(descStale, counter, float64(st.StaleAcks))
	send(descBlocked, gauge, truth(st.Blocked))
	for _, s := range allStates {
		send(descState, gauge, truth(s == st.State), string(s))
	}
	send(descScalings, counter, float64(c.ups.Load()), "up")
	send(descScalings, counter, float64(c.downs.Load()), "down")
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
