package broker

import "time"

// Connection describes one client's connection.
type Connection struct {
	Blocked    bool // held back by an alarm
	Channels   int
	ID         uint64 // for Kill
	Name       string // the client's connection_name
	Properties Table  // as the client sent them; not to be changed
	Remote     string
	Since      time.Time
	User       string
	Vhost      string
	path       string // its name in the management API
}

// Connections lists the connections whose handshake is over, oldest first.
func (b *Broker) Connections() []Connection {
	var out []Connection
	for _, c := range b.conns() {
		if !c.ready.Load() {
			continue
		}
		c.vhost.mu.Lock()
		out = append(out, Connection{
			Blocked: c.blocked.Load(), Channels: len(c.channels), ID: c.id, Name: c.name, Properties: c.properties,
			Remote: c.nc.RemoteAddr().String(), Since: c.since, User: c.user.name, Vhost: c.vhost.name,
			path: c.remoteName(),
		})
		c.vhost.mu.Unlock()
	}
	return out
}

// Memory is how many bytes of messages the broker holds.
func (b *Broker) Memory() int64 { return b.memory.used.Load() }
