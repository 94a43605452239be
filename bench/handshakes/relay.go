package handshakes

import (
	"context"
	"encoding/json"
	"time"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/relay"
)

func init() { bench.RegisterRole(relayRole, openRelay) }

// line asks for the two ways to a place over a line with a round trip time.
type line struct {
	Place place         `json:"place"`
	RTT   time.Duration `json:"rtt"`
}

// openRelay is the role of the process that delays.
func openRelay(context.Context, json.RawMessage) (map[string]bench.Verb, func(), error) {
	var closes []func() error
	open := func(_ context.Context, args json.RawMessage) (any, error) {
		var l line
		if err := json.Unmarshal(args, &l); err != nil {
			return nil, err
		}
		tcp, err := relay.ListenTCP(l.Place.TCP, l.RTT)
		if err != nil {
			return nil, err
		}
		closes = append(closes, tcp.Close)
		udp, err := relay.ListenUDP(l.Place.UDP, l.RTT)
		if err != nil {
			return nil, err
		}
		closes = append(closes, udp.Close)
		far := l.Place
		far.TCP, far.UDP = tcp.Addr(), udp.Addr()
		return far, nil
	}
	return map[string]bench.Verb{"open": open}, func() {
		for _, c := range closes {
			_ = c()
		}
	}, nil
}
