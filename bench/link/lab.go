package link

import (
	"fmt"
	"net"
	"net/netip"
	"time"
)

// Lab is one that is up.
type Lab struct {
	Spec
}

// Namespace of a host.
func (s Spec) Namespace(host string) string {
	if host == Origin && s.Hosts == 2 {
		host = Gateway
	}
	return Prefix + s.Name + "-" + host
}

// Addr is a host's address on a link: 0 and 1 lie between load and gateway.
// The origin has one address, which the gateway reaches it by. They are of the
// network that is set apart for benchmarks (RFC 2544, appendix C.2.2).
func (s Spec) Addr(host string, link int) netip.Addr {
	switch {
	case host == Load:
		return netip.AddrFrom4([4]byte{198, 18, byte(link), 1})
	case host == Gateway:
		return netip.AddrFrom4([4]byte{198, 18, byte(link), 2})
	case s.Hosts == 2:
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.AddrFrom4([4]byte{198, 18, backNet, 2})
}

// backNet is the third byte of the network between gateway and origin.
const backNet = 9

func (s Spec) hosts() []string { return []string{Load, Gateway, Origin}[:s.Hosts] }

// note is how a link's end tells what the lab was asked to be: the kernel
// keeps it as the alias of an interface.
func (s Spec) note() string {
	return fmt.Sprintf(noteFormat, s.Name, s.Rate, s.RTT, s.Shaper, s.Links, s.Hosts, s.Congestion)
}

const noteFormat = "pqgw lab=%s rate=%d rtt=%s shaper=%s links=%d hosts=%d congestion=%s"

func (s *Spec) fromNote(text string) error {
	var rtt string
	if _, err := fmt.Sscanf(text, noteFormat, &s.Name, &s.Rate, &rtt, &s.Shaper, &s.Links, &s.Hosts, &s.Congestion); err != nil {
		return fmt.Errorf("the alias of link0 is %q, not a lab's note: %w", text, err)
	}
	var err error
	s.RTT, err = time.ParseDuration(rtt)
	return err
}

// Shaping of one direction of a link.
const (
	// segment is the largest packet before it is cut up; a bucket must hold one.
	segment = 64 << 10
	// burstTime is what a bucket holds at the rate: shorter than this timers
	// cannot keep up with.
	burstTime = time.Millisecond
	// queueTime is what may wait at the rate before packets are lost, as in a
	// switch with a few hundred kilobytes for each port.
	queueTime = 5 * time.Millisecond
)

func (s Spec) burst() int64 {
	return max(2*segment, int64(float64(s.Rate)/8*burstTime.Seconds()))
}

// queue is what may wait, in bytes: at least a round trip, without which no
// loss-based congestion control fills the line.
func (s Spec) queue() int64 {
	return s.burst() + int64(float64(s.Rate)/8*max(queueTime, s.RTT).Seconds())
}

// Describe tells readers what the lab is.
func (s Spec) Describe() string {
	rtt := "veth's own round trip time"
	if s.RTT > 0 {
		rtt = "a round trip time of " + s.RTT.String()
	}
	return fmt.Sprintf("%d hosts, %d link(s) of %s by %s with %s, MTU %d, %s", s.Hosts, s.Links, s.Rate.String(), s.Shaper, rtt, s.MTU, s.Congestion)
}

// Reach gives the addresses by which others reach a listener on a host: one
// for each link towards the gateway, so that load spreads over all of them.
func (s Spec) Reach(host, listener string) []string {
	_, port, err := net.SplitHostPort(listener)
	if err != nil {
		return nil
	}
	links := 1
	if host == Gateway {
		links = s.Links
	}
	var out []string
	for i := range links {
		out = append(out, net.JoinHostPort(s.Addr(host, i).String(), port))
	}
	return out
}
