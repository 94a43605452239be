package router

import (
	"slices"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/exchange"
)

// candidate is a rule whose host and path match already.
type candidate[T any] struct {
	*conditions // nil: no more conditions
	value       T
}

// conditions are what a rule asks for beside host, path and listener.
type conditions struct {
	methods uint32   // bits of exchange.Method, when hasMethod
	others  []string // methods that exchange has no id for
	headers []header
	peers   []string
	// never is set on rules for calls that do not come as exchanges.
	never     bool
	hasMethod bool
}

type header struct {
	name  string
	id    exchange.Name
	value string
	any   bool
}

func compile(m *config.Match) *conditions {
	if len(m.Method) == 0 && len(m.Header) == 0 && len(m.Peer) == 0 && m.RPCMethod == nil {
		return nil
	}
	c := &conditions{peers: m.Peer, never: m.RPCMethod != nil, hasMethod: len(m.Method) > 0}
	for _, name := range m.Method {
		if id := exchange.LookupMethod([]byte(name)); id != exchange.MethodOther {
			c.methods |= 1 << id
		} else {
			c.others = append(c.others, name)
		}
	}
	for _, h := range m.Header {
		c.headers = append(c.headers, header{
			name: h.Name, id: exchange.LookupName([]byte(h.Name)),
			value: h.Value, any: h.Value == config.AnyValue,
		})
	}
	return c
}

func (c *conditions) match(q *Query) bool {
	if c == nil {
		return true
	}
	if c.never || len(c.peers) > 0 && (q.Peer == "" || !slices.Contains(c.peers, q.Peer)) {
		return false
	}
	if c.hasMethod && !c.method(q.Request) {
		return false
	}
	for i := range c.headers {
		if !c.headers[i].match(q.Request) {
			return false
		}
	}
	return true
}

func (c *conditions) method(h *exchange.Head) bool {
	if h.Method != exchange.MethodOther {
		return c.methods&(1<<h.Method) != 0
	}
	for _, name := range c.others {
		if string(h.MethodName()) == name {
			return true
		}
	}
	return false
}

func (want *header) match(h *exchange.Head) bool {
	for i := want.next(h, 0); i >= 0; i = want.next(h, i+1) {
		if want.any || string(h.Value(i)) == want.value {
			return true
		}
	}
	return false
}

func (want *header) next(h *exchange.Head, from int) int {
	if want.id != exchange.Unknown {
		return h.Next(want.id, from)
	}
	return h.Find(want.name, from)
}
