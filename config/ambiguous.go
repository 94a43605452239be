package config

import (
	"fmt"
	"slices"
	"strings"
)

// ambiguous reports pairs of routes of which neither wins by CompareRules
// though one request can match both.
func (c *checker) ambiguous() {
	alike := map[string][]Rule{}
	for _, r := range c.tree.Rules() {
		if c.failedBelow(join(index("routes", r.Index), "match")) {
			continue
		}
		// Rules of unlike host or path never tie where they overlap.
		path, isPrefix := r.Route.Match.PathPrefix()
		key := fmt.Sprintf("%s %t %s", r.Host, isPrefix, path)
		for _, other := range alike[key] {
			if CompareRules(other, r) == 0 && overlap(&other.Route.Match, &r.Route.Match) {
				c.tie(other, r)
				break
			}
		}
		alike[key] = append(alike[key], r)
	}
}

// tie says that two rules are equal, naming both places.
func (c *checker) tie(first, second Rule) {
	if first.Index == second.Index {
		c.fail(join(index("routes", first.Index), "match.host"), fmt.Sprintf("%s is given twice", first.Host), "")
		return
	}
	if first.Index > second.Index {
		first, second = second, first
	}
	a, b := index("routes", first.Index), index("routes", second.Index)
	where := a
	if at := c.where(a); at.line > 0 {
		where = fmt.Sprintf("%s (line %d)", a, at.line)
	}
	c.fail(b, fmt.Sprintf("is as specific as %s, and one request can match both", where), "give one of them another condition")
}

// overlap reports whether one request can fulfil the conditions of both
// beside host and path. It takes a client to have one name and a field one
// value: for the odd request with two, the earlier route wins.
func overlap(a, b *Match) bool {
	if disjoint(a.Listener, b.Listener) || disjoint(a.Method, b.Method) || disjoint(a.Peer, b.Peer) {
		return false
	}
	if a.RPCMethod != nil && b.RPCMethod != nil && *a.RPCMethod != *b.RPCMethod {
		return false
	}
	for _, f := range a.Header {
		for _, g := range b.Header {
			if strings.EqualFold(f.Name, g.Name) && f.Value != g.Value && f.Value != AnyValue && g.Value != AnyValue {
				return false
			}
		}
	}
	return true
}

// disjoint reports whether both lists demand something and nothing that the other allows.
func disjoint(a, b []string) bool {
	return len(a) > 0 && len(b) > 0 && !slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}
