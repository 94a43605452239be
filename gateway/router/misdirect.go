package router

import (
	"strings"

	"github.com/hanzoai/pqgw/config"
)

// markForeign notes the hosts that rules name only for listeners with other TLS
// settings than those of l.
func (t *Table[T]) markForeign(tree *config.Tree, l *config.Listener, rules []config.Rule) {
	settings := make(map[string]string, len(tree.Listeners))
	for _, other := range tree.Listeners {
		settings[other.Name] = other.TLS
	}
	for _, r := range rules {
		if r.Host != "" && sharesTLS(r, l, settings) {
			t.pathsOf(r.Host) // perhaps without rules here, but not foreign
		}
	}
	for _, r := range rules {
		if r.Host == "" || sharesTLS(r, l, settings) {
			continue
		}
		if suffix, ok := strings.CutPrefix(r.Host, "*."); ok {
			if t.wild[suffix] == nil {
				mark(&t.foreignWild, suffix)
			}
		} else if key := string(NormalizeHost(nil, []byte(r.Host))); t.exact[key] == nil {
			mark(&t.foreign, key)
		}
	}
}

func mark(set *map[string]bool, key string) {
	if *set == nil {
		*set = map[string]bool{}
	}
	(*set)[key] = true
}

// sharesTLS tells whether the rule is served by some listener with the TLS
// settings of l.
func sharesTLS(r config.Rule, l *config.Listener, settings map[string]string) bool {
	names := r.Route.Match.Listener
	if len(names) == 0 {
		return true
	}
	for _, n := range names {
		if n == l.Name || settings[n] == l.TLS {
			return true
		}
	}
	return false
}

// Misdirected tells whether a request for host, on a connection that was made
// for sni, belongs on a connection under other TLS settings (RFC 9110, section
// 7.4): the most specific rules that name the host are all bound to listeners whose
// `tls` is not this listener's. A client that asked for that very name in its
// handshake was not coalescing, and is served by what this listener has.
func (t *Table[T]) Misdirected(host []byte, sni string) bool {
	if t.foreign == nil && t.foreignWild == nil || string(host) == sni {
		return false
	}
	if t.exact[string(host)] != nil {
		return false
	}
	if t.foreign[string(host)] {
		return true
	}
	for rest := host; ; {
		i := dotIn(rest, len(rest) == len(host))
		if i < 0 {
			return false
		}
		rest = rest[i+1:]
		if t.wild[string(rest)] != nil {
			return false
		}
		if t.foreignWild[string(rest)] {
			return true
		}
	}
}
