package config

import (
	"cmp"
	"slices"
	"strings"
)

// Rule is a route under one of its hosts: what the matching of requests works on.
type Rule struct {
	Route *Route
	// Index of the route in Tree.Routes.
	Index int
	// Host is exact or `*.example.com`, in lower case; empty matches any.
	Host string
}

// Rules lists the routes, one rule for each host of each, the most specific
// first: of the rules that match a request the first one wins.
func (t *Tree) Rules() []Rule {
	var rules []Rule
	for i, r := range t.Routes {
		if len(r.Match.Host) == 0 {
			rules = append(rules, Rule{Route: r, Index: i})
		}
		for _, h := range r.Match.Host {
			rules = append(rules, Rule{Route: r, Index: i, Host: strings.ToLower(h)})
		}
	}
	slices.SortStableFunc(rules, CompareRules)
	return rules
}

// CompareRules is the order in which rules win: negative where a wins over b,
// positive where b does, 0 where neither does. The most specific wins:
//
//  1. an exact host, then the longer wildcard, then no host;
//  2. an exact path, then the longer prefix, then no path;
//  3. more conditions: listener, peer, rpc_method and method count one each, and so does each header;
//  4. at the same number, the one with a listener; then with a peer; then with an rpc_method; then with a method;
//  5. more headers whose value is given, not `*`.
//
// The order of the file plays no part: two rules that are equal by this and
// could both match one request are an error of the configuration.
func CompareRules(a, b Rule) int {
	return cmp.Or(
		compareHosts(a.Host, b.Host),
		comparePaths(&a.Route.Match, &b.Route.Match),
		compareConditions(&a.Route.Match, &b.Route.Match),
	)
}

func compareHosts(a, b string) int {
	rank := func(h string) int {
		switch {
		case h == "":
			return 0
		case strings.HasPrefix(h, "*."):
			return 1
		}
		return 2
	}
	if d := cmp.Compare(rank(b), rank(a)); d != 0 || rank(a) == 2 {
		return d
	}
	return cmp.Compare(len(b), len(a))
}

func comparePaths(a, b *Match) int {
	pa, prefixA := a.PathPrefix()
	pb, prefixB := b.PathPrefix()
	switch {
	case !prefixA && !prefixB:
		return 0
	case !prefixA:
		return -1
	case !prefixB:
		return 1
	}
	// `/*` says no more than no path at all, but it says it, so both have length 0.
	return cmp.Compare(len(pb), len(pa))
}

func compareConditions(a, b *Match) int {
	countA, whichA, exactA := conditions(a)
	countB, whichB, exactB := conditions(b)
	return cmp.Or(cmp.Compare(countB, countA), cmp.Compare(whichB, whichA), cmp.Compare(exactB, exactA))
}

// conditions counts the conditions of m beside host and path, gives which
// they are as bits in the order in which they count, and how many headers
// have an exact value.
func conditions(m *Match) (count, which, exact int) {
	for _, given := range []bool{len(m.Listener) > 0, len(m.Peer) > 0, m.RPCMethod != nil, len(m.Method) > 0} {
		which <<= 1
		if given {
			which++
			count++
		}
	}
	for _, h := range m.Header {
		if h.Value != AnyValue {
			exact++
		}
	}
	return count + len(m.Header), which, exact
}

// AnyValue in Match.Header stands for any value of the field.
const AnyValue = "*"

// Request is what rules are matched against.
type Request struct {
	// Listener it arrived at.
	Listener string
	// Host in lower case, without port.
	Host string
	// Path as it was sent, without query.
	Path string
	// Method such as GET; empty for a ZAP call.
	Method string
	// Header fields.
	Header Fields
	// Peers are the verified names of the client.
	Peers []string
	// RPCMethod of a ZAP call.
	RPCMethod *uint32
}

// Matches reports whether the rule is for the request; where it is not, why
// names the first condition that does not hold, as in the file.
func (r Rule) Matches(q *Request) (ok bool, why string) {
	m := &r.Route.Match
	switch {
	case !HostMatches(r.Host, q.Host):
		return false, "host"
	case !m.MatchesPath(q.Path):
		return false, "path"
	case len(m.Listener) > 0 && !slices.Contains(m.Listener, q.Listener):
		return false, "listener"
	case len(m.Method) > 0 && !slices.Contains(m.Method, q.Method):
		return false, "method"
	case len(m.Peer) > 0 && !slices.ContainsFunc(q.Peers, func(p string) bool { return slices.Contains(m.Peer, p) }):
		return false, "peer"
	case m.RPCMethod != nil && (q.RPCMethod == nil || *q.RPCMethod != *m.RPCMethod):
		return false, "rpc_method"
	}
	for _, h := range m.Header {
		if !slices.ContainsFunc(q.Header, func(f Field) bool {
			return strings.EqualFold(f.Name, h.Name) && (h.Value == AnyValue || f.Value == h.Value)
		}) {
			return false, "header " + h.Name
		}
	}
	return true, ""
}

// HostMatches reports whether pattern (exact, `*.example.com`, or empty for
// any) stands for host; both in lower case.
func HostMatches(pattern, host string) bool {
	if suffix, ok := strings.CutPrefix(pattern, "*"); ok {
		return len(host) > len(suffix) && strings.HasSuffix(host, suffix)
	}
	return pattern == "" || pattern == host
}

// MatchesPath reports whether the path is one that m.Path stands for.
func (m *Match) MatchesPath(path string) bool {
	prefix, isPrefix := m.PathPrefix()
	rest, ok := strings.CutPrefix(path, prefix)
	if !isPrefix {
		return ok && rest == ""
	}
	return ok && (rest == "" || rest[0] == '/') || prefix == ""
}

// Winner returns the first of rules that matches q; rules are in the order of Tree.Rules.
func Winner(rules []Rule, q *Request) (Rule, bool) {
	for _, r := range rules {
		if ok, _ := r.Matches(q); ok {
			return r, true
		}
	}
	return Rule{}, false
}
