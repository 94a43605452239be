// Package model reckons what a fleet needs from what was measured: the cores
// for handshakes and for requests, and the link, full handshakes against
// resumed ones, a hybrid group against a classical one. It shows every step.
package model

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Load is what a fleet has to carry. Clients keep one connection open at all
// times and make a new one when it has lived its time.
type Load struct {
	Clients     float64       `json:"clients"`
	Lifetime    time.Duration `json:"lifetime_ns"` // of a connection
	RPS         float64       `json:"rps"`         // requests per second of each client
	Bytes       float64       `json:"bytes"`       // of each answer
	Resumed     float64       `json:"resumed"`     // share of handshakes, in [0, 1]
	Utilisation float64       `json:"utilisation"` // share of cores and links to plan for, in (0, 1]
	Link        float64       `json:"link"`        // bits per second
}

// Check says what is wrong with a load.
func (l Load) Check() error {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New(what))
		}
	}
	need(l.Clients > 0 && !math.IsInf(l.Clients, 0), "clients: must be above 0")
	need(l.Lifetime > 0, "lifetime: must be above 0")
	need(l.RPS >= 0 && !math.IsInf(l.RPS, 0), "rps: must not be negative")
	need(l.Bytes >= 0 && !math.IsInf(l.Bytes, 0), "bytes: must not be negative")
	need(l.Resumed >= 0 && l.Resumed <= 1, "resumed: is a share from 0 to 1")
	need(l.Utilisation > 0 && l.Utilisation <= 1, "utilisation: is a share above 0 and up to 1")
	need(l.Link > 0 && !math.IsInf(l.Link, 0), "link: must be above 0")
	return errors.Join(errs...)
}

// Range is a measured or reckoned value with the interval it may lie in.
type Range struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

func (r Range) times(f float64) Range { return Range{r.Value * f, r.Low * f, r.High * f} }

func (r Range) plus(o Range) Range { return Range{r.Value + o.Value, r.Low + o.Low, r.High + o.High} }

// Handshake is what one costs the server.
type Handshake struct {
	CPU       Range   `json:"cpu"`        // µs
	BytesUp   float64 `json:"bytes_up"`   // to the server
	BytesDown float64 `json:"bytes_down"` // to the client
}

// Costs are what was measured.
type Costs struct {
	Group    string    `json:"group"`
	Full     Handshake `json:"full"`
	Resumed  Handshake `json:"resumed"`
	Request  Range     `json:"request"`  // µs, with an answer of Included bytes
	Byte     Range     `json:"byte"`     // µs for each byte more
	Included float64   `json:"included"` // bytes of answer that a request's cost has in it
}

// Need is what a load takes with one group.
type Need struct {
	Group           string  `json:"group"`
	Connections     float64 `json:"connections_per_second"`
	Requests        float64 `json:"requests_per_second"`
	HandshakeCores  Range   `json:"handshake_cores"`
	RequestCores    Range   `json:"request_cores"`
	Cores           Range   `json:"cores"` // busy, of both
	Plan            int     `json:"plan"`  // cores to plan for
	AllFull         Range   `json:"cores_all_full"`
	AllResumed      Range   `json:"cores_all_resumed"`
	BitsUp          float64 `json:"bits_up"` // per second, handshakes and requests
	BitsDown        float64 `json:"bits_down"`
	HandshakeShare  float64 `json:"handshake_share_of_bits"`
	Links           int     `json:"links"`
	RequestsPerLife float64 `json:"requests_per_connection"`
}

// What the wire adds: an Ethernet frame with preamble and gap carries 1,448
// bytes of TCP (IPv4, timestamps) in 1,538; a TLS record 16 KiB in 16 KiB
// and 22 bytes.
const (
	frame, segment     = 1538.0, 1448.0
	record, recordHead = 16384.0, 22.0
	requestBytes       = 512.0 // a head with a token, and an answer's head
	micro              = 1e-6
	bits               = 8.0
)

func onWire(bytes float64) float64 { return bytes * frame / segment }

func inRecords(bytes float64) float64 { return bytes + math.Ceil(bytes/record)*recordHead }

// Reckon says what a load needs.
func Reckon(l Load, c Costs) Need {
	n := Need{Group: c.Group, Connections: l.Clients / l.Lifetime.Seconds(), Requests: l.Clients * l.RPS}
	n.RequestsPerLife = l.RPS * l.Lifetime.Seconds()
	each := c.Full.CPU.times(1 - l.Resumed).plus(c.Resumed.CPU.times(l.Resumed))
	n.HandshakeCores = each.times(n.Connections * micro)
	n.RequestCores = c.request(l.Bytes).times(n.Requests * micro)
	n.Cores = n.HandshakeCores.plus(n.RequestCores)
	n.AllFull = c.Full.CPU.times(n.Connections * micro).plus(n.RequestCores)
	n.AllResumed = c.Resumed.CPU.times(n.Connections * micro).plus(n.RequestCores)
	n.Plan = int(math.Ceil(n.Cores.Value / l.Utilisation))
	up := n.Connections * onWire((1-l.Resumed)*c.Full.BytesUp+l.Resumed*c.Resumed.BytesUp) * bits
	down := n.Connections * onWire((1-l.Resumed)*c.Full.BytesDown+l.Resumed*c.Resumed.BytesDown) * bits
	n.BitsUp = up + n.Requests*onWire(inRecords(requestBytes))*bits
	n.BitsDown = down + n.Requests*onWire(inRecords(requestBytes+l.Bytes))*bits
	if all := n.BitsUp + n.BitsDown; all > 0 {
		n.HandshakeShare = (up + down) / all
	}
	n.Links = int(math.Ceil(max(n.BitsUp, n.BitsDown) / (l.Link * l.Utilisation)))
	return n
}

// request is the cost of one with an answer of so many bytes.
func (c Costs) request(bytes float64) Range {
	return c.Request.plus(c.Byte.times(max(0, bytes-c.Included)))
}

// Arithmetic is Reckon in words and numbers.
func Arithmetic(l Load, c Costs, n Need) []string {
	each := (1-l.Resumed)*c.Full.CPU.Value + l.Resumed*c.Resumed.CPU.Value
	return []string{
		fmt.Sprintf("connections: %.0f clients / %v = %.1f per second, %.0f requests on each", l.Clients, l.Lifetime, n.Connections, n.RequestsPerLife),
		fmt.Sprintf("a handshake: %.0f %% full × %.0f µs + %.0f %% resumed × %.0f µs = %.0f µs", 100*(1-l.Resumed), c.Full.CPU.Value, 100*l.Resumed, c.Resumed.CPU.Value, each),
		fmt.Sprintf("handshakes: %.1f/s × %.0f µs = %.3f cores", n.Connections, each, n.HandshakeCores.Value),
		fmt.Sprintf("a request: %.1f µs + %.0f bytes beyond %.0f × %.3g ns = %.1f µs", c.Request.Value, max(0, l.Bytes-c.Included), c.Included, 1e3*c.Byte.Value, c.request(l.Bytes).Value),
		fmt.Sprintf("requests: %.0f clients × %g/s = %.0f/s × %.1f µs = %.3f cores", l.Clients, l.RPS, n.Requests, c.request(l.Bytes).Value, n.RequestCores.Value),
		fmt.Sprintf("cores: %.3f + %.3f = %.3f busy, / %.0f %% = %d to plan for", n.HandshakeCores.Value, n.RequestCores.Value, n.Cores.Value, 100*l.Utilisation, n.Plan),
		fmt.Sprintf("link: %.1f Mbit/s up, %.1f Mbit/s down with all headers, %.2g %% of it handshakes; %d of %.3g Gbit/s at %.0f %%", n.BitsUp/1e6, n.BitsDown/1e6, 100*n.HandshakeShare, n.Links, l.Link/1e9, 100*l.Utilisation),
	}
}
