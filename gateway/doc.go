// Package gateway decides what becomes of an exchange: it finds its route, sets
// the fields that upstreams go by, and answers it from an upstream, from a
// handler in this process, or by itself. It knows no wire: exchanges come in
// through exchange.Handler and go out through exchange.Dialer.
//
// What runs keeps the configuration it began with; Swap puts another in place for
// the exchanges after it.
package gateway
