package broker

import "time"

// janitor closes channels that hold deliveries for longer than the consumer
// timeout. One goroutine does so for all of them.
func (b *Broker) janitor(stop <-chan struct{}) {
	defer b.rescue("janitor")
	timeout := b.cfg.ConsumerTimeout
	if timeout < 0 {
		return
	}
	tick := time.NewTicker(min(timeout/4+time.Millisecond, time.Minute))
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		for _, c := range b.conns() {
			if c.ready.Load() {
				c.expireDeliveries(timeout)
			}
		}
	}
}

func (c *conn) expireDeliveries(timeout time.Duration) {
	c.vhost.mu.Lock()
	defer c.vhost.mu.Unlock()
	deadline := c.b.now() - int64(timeout)
	for _, ch := range c.channels {
		if since := ch.unacked.oldest(); since != 0 && since < deadline && !ch.closing.Load() {
			ch.fail(channelError(406, "delivery acknowledgement on channel %d timed out. Timeout value used: %d ms. "+
				"This timeout value can be configured, see consumers doc guide to learn more", ch.id, timeout.Milliseconds()))
		}
	}
}
