package telemetry

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/hanzoai/pqgw/handshake"
)

// maxClassicalClients bounds the kinds of clients that a listener's report tells
// apart: what a stranger can make up (names, hellos) takes no more memory than this,
// some 170 KB. The least busy gives way to a new one and is counted in the rest.
const maxClassicalClients = 256

// Windows of the report, in slots of a ring each.
const (
	hourSlots, hourSlot = 13, 5 * time.Minute // the slot under way and the hour before
	daySlots, daySlot   = 25, time.Hour
)

// Use is how much went over classical key exchange in a time.
type Use struct {
	Connections uint64 `json:"connections"`
	// Bytes are those of request and answer bodies.
	Bytes uint64 `json:"bytes"`
}

func (u *Use) add(o Use) {
	u.Connections += o.Connections
	u.Bytes += o.Bytes
}

// ring counts in slots of time; what is older than its slots is forgotten.
type ring struct {
	slots []Use
	last  int64 // number of the slot that was counted in last
}

func newRing(slots int) ring { return ring{slots: make([]Use, slots)} }

// turn makes room for the slot at now.
func (r *ring) turn(now time.Time, slot time.Duration) *Use {
	at := now.UnixNano() / int64(slot)
	n := int64(len(r.slots))
	for i := max(r.last+1, at-n+1); i <= at; i++ {
		r.slots[i%n] = Use{}
	}
	r.last = max(r.last, at)
	return &r.slots[r.last%n]
}

func (r *ring) sum(now time.Time, slot time.Duration) (u Use) {
	r.turn(now, slot)
	for _, s := range r.slots {
		u.add(s)
	}
	return u
}

// windows are an hour and a day.
type windows struct{ hour, day ring }

func newWindows() windows { return windows{newRing(hourSlots), newRing(daySlots)} }

func (w *windows) add(now time.Time, u Use) {
	w.hour.turn(now, hourSlot).add(u)
	w.day.turn(now, daySlot).add(u)
}

// merge adds what another counted, slot by slot.
func (w *windows) merge(now time.Time, o *windows) {
	for _, p := range []struct {
		to, from *ring
		slot     time.Duration
	}{{&w.hour, &o.hour, hourSlot}, {&w.day, &o.day, daySlot}} {
		p.to.turn(now, p.slot)
		p.from.turn(now, p.slot)
		for i := range p.to.slots {
			p.to.slots[i].add(p.from.slots[i])
		}
	}
}

// classicalKey tells kinds of clients apart.
type classicalKey struct{ sni, ja4 string }

type classicalClient struct {
	windows
	last time.Time
}

// classical keeps account of a listener's connections whose key exchange a quantum
// computer can break. The zero value is empty.
type classical struct {
	mu      sync.Mutex
	clients map[classicalKey]*classicalClient
	rest    *classicalClient
	all     windows // of every TLS connection, to compare with
	now     func() time.Time
}

// begin is called with the lock held.
func (c *classical) begin() time.Time {
	if c.clients == nil {
		c.clients = map[classicalKey]*classicalClient{}
		c.rest = &classicalClient{windows: newWindows()}
		c.all = newWindows()
		if c.now == nil {
			c.now = time.Now
		}
	}
	return c.now()
}

// connection counts a handshake.
func (c *classical) connection(f *handshake.Facts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.begin()
	c.all.add(now, Use{Connections: 1})
	if !f.PQ() {
		c.client(now, f).add(now, Use{Connections: 1})
	}
}

// bytes counts those of an exchange on a classical connection.
func (c *classical) bytes(f *handshake.Facts, n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.begin()
	client := c.clients[classicalKey{f.SNI, f.JA4}]
	if client == nil {
		client = c.rest // it has given way since it connected
	}
	client.add(now, Use{Bytes: n})
}

func (c *classical) client(now time.Time, f *handshake.Facts) *classicalClient {
	key := classicalKey{f.SNI, f.JA4}
	client := c.clients[key]
	if client == nil {
		if len(c.clients) >= maxClassicalClients {
			c.giveWay(now)
		}
		client = &classicalClient{windows: newWindows()}
		c.clients[key] = client
	}
	client.last = now
	return client
}

// giveWay moves the client with the fewest connections in a day into the rest.
func (c *classical) giveWay(now time.Time) {
	var least classicalKey
	fewest := ^uint64(0)
	for key, client := range c.clients {
		if n := client.day.sum(now, daySlot).Connections; n < fewest {
			least, fewest = key, n
		}
	}
	gone := c.clients[least]
	c.rest.merge(now, &gone.windows)
	if gone.last.After(c.rest.last) {
		c.rest.last = gone.last
	}
	delete(c.clients, least)
}

// PQReport says what of a listener's traffic a quantum computer could read later.
type PQReport struct {
	Listener string `json:"listener"`
	// TLSHour and TLSDay count all TLS connections, to compare with.
	TLSHour uint64 `json:"tls_connections_hour"`
	TLSDay  uint64 `json:"tls_connections_day"`
	// Hour and Day are what went over classical key exchange.
	Hour Use `json:"classical_hour"`
	Day  Use `json:"classical_day"`
	// Clients are the kinds of clients that did so within a day, the busiest first;
	// one without SNI and JA4 at the end stands for the rest.
	Clients []PQClient `json:"clients"`
}

// PQClient is one kind of client.
type PQClient struct {
	// SNI is the name asked for, JA4 the kind of client (see handshake.JA4).
	SNI      string    `json:"sni"`
	JA4      string    `json:"ja4"`
	Rest     bool      `json:"rest,omitempty"`
	Hour     Use       `json:"hour"`
	Day      Use       `json:"day"`
	LastSeen time.Time `json:"last_seen"`
}

// report tells of the last hour and day. Clients that were not seen for a day are
// forgotten.
func (c *classical) report(listener string) PQReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.begin()
	r := PQReport{
		Listener: listener, Clients: []PQClient{},
		TLSHour: c.all.hour.sum(now, hourSlot).Connections, TLSDay: c.all.day.sum(now, daySlot).Connections,
	}
	for key, client := range c.clients {
		p := client.report(now)
		if p.Day == (Use{}) {
			delete(c.clients, key)
			continue
		}
		p.SNI, p.JA4 = key.sni, key.ja4
		r.Clients = append(r.Clients, p)
	}
	slices.SortFunc(r.Clients, func(a, b PQClient) int {
		return cmp.Or(-cmp.Compare(a.Day.Connections, b.Day.Connections), -cmp.Compare(a.Day.Bytes, b.Day.Bytes), cmp.Compare(a.SNI+a.JA4, b.SNI+b.JA4))
	})
	if p := c.rest.report(now); p.Day != (Use{}) {
		p.Rest = true
		r.Clients = append(r.Clients, p)
	}
	for _, p := range r.Clients {
		r.Hour.add(p.Hour)
		r.Day.add(p.Day)
	}
	return r
}

func (c *classicalClient) report(now time.Time) PQClient {
	return PQClient{Hour: c.hour.sum(now, hourSlot), Day: c.day.sum(now, daySlot), LastSeen: c.last}
}

// ClassicalBytes counts the body bytes of an exchange on a connection with these
// facts; those of a post-quantum one, or in the clear, do not count.
func (s *ListenerSeries) ClassicalBytes(f *handshake.Facts, n int64) {
	if f.TLS() && !f.PQ() && n > 0 {
		s.classical.bytes(f, uint64(n))
	}
}

// PQReport tells of each listener that has served TLS.
func (m *Metrics) PQReport() []PQReport {
	out := []PQReport{}
	for name, s := range m.Listeners.all() {
		if r := s.classical.report(name); r.TLSDay > 0 || len(r.Clients) > 0 {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b PQReport) int { return cmp.Compare(a.Listener, b.Listener) })
	return out
}
