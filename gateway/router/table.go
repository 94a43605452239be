// Package router finds the route of a request in a time that does not depend
// on how many routes there are: one look-up by host, then one by exact path and
// one walk down the path's segments, whatever the number of rules.
//
// It finds what config.Winner finds in config.Tree.Rules; the tests hold it to that.
package router

import (
	"bytes"
	"strings"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/exchange"
)

// Table is the routes of one listener, each bound to a T. It is not changed
// once it is built, and may be read by any number of goroutines.
type Table[T any] struct {
	exact map[string]*paths[T]
	// wild holds `*.example.com` as "example.com".
	wild map[string]*paths[T]
	any  *paths[T] // rules without a host; nil when there are none
	// foreign hosts have rules, but only on listeners with other TLS settings.
	foreign     map[string]bool
	foreignWild map[string]bool
}

// Query is what of a request routes are matched against.
type Query struct {
	// Host as NormalizeHost gives it.
	Host []byte
	// Path without query.
	Path []byte
	// Request gives method and fields.
	Request *exchange.Head
	// Peer is the verified name of the client, empty for none.
	Peer string
}

// Build makes the table of the listener l. bind is called once for each rule
// that can match there, in the order in which rules win; the last table's T of
// the same rule may be given again.
func Build[T any](tree *config.Tree, l *config.Listener, bind func(config.Rule) T) *Table[T] {
	t := &Table[T]{exact: map[string]*paths[T]{}, wild: map[string]*paths[T]{}}
	rules := tree.Rules()
	for _, r := range rules {
		if !bound(r, l) {
			continue
		}
		p := t.pathsOf(r.Host)
		p.add(&r.Route.Match, candidate[T]{conditions: compile(&r.Route.Match), value: bind(r)})
	}
	t.markForeign(tree, l, rules)
	for _, p := range t.exact {
		p.link()
	}
	for _, p := range t.wild {
		p.link()
	}
	if t.any != nil {
		t.any.link()
	}
	return t
}

// bound tells whether the rule can match on l at all.
func bound(r config.Rule, l *config.Listener) bool {
	names := r.Route.Match.Listener
	if len(names) == 0 {
		return true
	}
	for _, n := range names {
		if n == l.Name {
			return true
		}
	}
	return false
}

func (t *Table[T]) pathsOf(host string) *paths[T] {
	if host == "" {
		if t.any == nil {
			t.any = newPaths[T]()
		}
		return t.any
	}
	m, key := t.exact, string(NormalizeHost(nil, []byte(host)))
	if suffix, ok := strings.CutPrefix(host, "*."); ok {
		m, key = t.wild, suffix
	}
	p := m[key]
	if p == nil {
		p = newPaths[T]()
		m[key] = p
	}
	return p
}

// Lookup finds the T of the rule that wins; ok is false when none matches. It
// allocates nothing.
func (t *Table[T]) Lookup(q *Query) (v T, ok bool) {
	if p := t.exact[string(q.Host)]; p != nil {
		if v, ok = p.lookup(q); ok {
			return v, true
		}
	}
	if len(t.wild) > 0 {
		for rest := q.Host; ; {
			i := dotIn(rest, len(rest) == len(q.Host))
			if i < 0 {
				break
			}
			rest = rest[i+1:]
			if p := t.wild[string(rest)]; p != nil {
				if v, ok = p.lookup(q); ok {
					return v, true
				}
			}
		}
	}
	if t.any != nil {
		return t.any.lookup(q)
	}
	return v, false
}

// dotIn finds the next dot; the name before the first one must not be empty.
func dotIn(b []byte, first bool) int {
	if first && len(b) > 0 {
		if i := bytes.IndexByte(b[1:], '.'); i >= 0 {
			return i + 1
		}
		return -1
	}
	return bytes.IndexByte(b, '.')
}

// paths are the rules of one host.
type paths[T any] struct {
	exact map[string][]candidate[T]
	root  *node[T]
}

// node is a prefix, one segment longer than its parent's.
type node[T any] struct {
	children   map[string]*node[T]
	candidates []candidate[T]
	up         *node[T] // the nearest shorter prefix that has candidates
}

func newPaths[T any]() *paths[T] { return &paths[T]{root: &node[T]{}} }

func (p *paths[T]) add(m *config.Match, c candidate[T]) {
	prefix, isPrefix := m.PathPrefix()
	if !isPrefix {
		if p.exact == nil {
			p.exact = map[string][]candidate[T]{}
		}
		p.exact[prefix] = append(p.exact[prefix], c)
		return
	}
	n := p.root
	if prefix != "" {
		for segment := range strings.SplitSeq(prefix[1:], "/") {
			n = n.child(segment)
		}
	}
	n.candidates = append(n.candidates, c)
}

func (n *node[T]) child(segment string) *node[T] {
	if n.children == nil {
		n.children = map[string]*node[T]{}
	}
	c := n.children[segment]
	if c == nil {
		c = &node[T]{}
		n.children[segment] = c
	}
	return c
}

// link sets the up pointers once all prefixes are there.
func (p *paths[T]) link() { p.root.link(nil) }

func (n *node[T]) link(up *node[T]) {
	n.up = up
	if len(n.candidates) > 0 {
		up = n
	}
	for _, c := range n.children {
		c.link(up)
	}
}

func (p *paths[T]) lookup(q *Query) (v T, ok bool) {
	if p.exact != nil {
		if v, ok = first(p.exact[string(q.Path)], q); ok {
			return v, true
		}
	}
	for n := p.root.walk(q.Path); n != nil; n = n.up {
		if v, ok = first(n.candidates, q); ok {
			return v, true
		}
	}
	return v, false
}

// walk finds the node of the longest prefix of path. It goes no deeper than
// the prefixes that there are, however long the path is.
func (n *node[T]) walk(path []byte) *node[T] {
	if len(path) == 0 || path[0] != '/' {
		return n
	}
	for rest := path[1:]; n.children != nil; {
		end := bytes.IndexByte(rest, '/')
		segment := rest
		if end >= 0 {
			segment = rest[:end]
		}
		next := n.children[string(segment)]
		if next == nil {
			break
		}
		n = next
		if end < 0 {
			break
		}
		rest = rest[end+1:]
	}
	return n
}

func first[T any](list []candidate[T], q *Query) (v T, ok bool) {
	for i := range list {
		if list[i].match(q) {
			return list[i].value, true
		}
	}
	return v, false
}
