package model

import (
	"fmt"
	"strconv"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/lifetime"
)

// Basis says which handshakes to reckon with.
type Basis struct {
	Transport string `json:"transport"` // "tls" or "quic"
	Auth      string `json:"auth"`      // "ECDSA P-256", "RSA 2048", "Ed25519"
}

// MissingError says that results lack what the model needs.
type MissingError struct{ What string }

func (e *MissingError) Error() string {
	return "the results have no " + e.What + "; run bench all, or leave --results out to measure now"
}

// CostsOf reads a group's costs from results that have the benches handshake
// and lifetime. What a request costs on a warm connection does not depend on
// the group.
func CostsOf(r *bench.Results, b Basis, group string) (Costs, error) {
	c := Costs{Group: group}
	matrix := r.Bench("handshake").Experiment("matrix")
	for kind, to := range map[string]*Handshake{"full": &c.Full, "resumed": &c.Resumed} {
		cell := matrix.Find(map[string]string{"transport": b.Transport, "auth": b.Auth, "group": group, "kind": kind})
		cpu, ok := cell.Measured("server_cpu")
		if !ok {
			return c, &MissingError{fmt.Sprintf("%s handshake over %s with %s and %s", kind, b.Transport, group, b.Auth)}
		}
		*to = Handshake{CPU: rangeOf(cpu), BytesUp: cell.Stats["bytes_up"].Median, BytesDown: cell.Stats["bytes_down"].Median}
	}
	small, smallBytes, err := warm(r, "requests")
	if err != nil {
		return c, err
	}
	large, largeBytes, err := warm(r, "bytes")
	if err != nil {
		return c, err
	}
	c.Request, c.Included = small, smallBytes
	more := largeBytes - smallBytes
	c.Byte = Range{
		Value: max(0, large.Value-small.Value) / more,
		Low:   max(0, large.Low-small.High) / more,
		High:  max(0, large.High-small.Low) / more,
	}
	return c, nil
}

// warm is what a request costs on a warm connection, from lives of both
// groups, which send the same records then.
func warm(r *bench.Results, experiment string) (Range, float64, error) {
	e := r.Bench("lifetime").Experiment(experiment)
	if e == nil || len(e.Cells) == 0 {
		return Range{}, 0, &MissingError{"bench lifetime, " + experiment}
	}
	body, err := strconv.Atoi(e.Cells[0].Labels["body"])
	if err != nil {
		return Range{}, 0, &MissingError{"size of the answers of bench lifetime, " + experiment}
	}
	var values []float64
	for _, b := range lifetime.Bills(e, lifetime.ServerCPU) {
		values = append(values, b.Request)
	}
	if len(values) == 0 {
		return Range{}, 0, &MissingError{"lives in bench lifetime, " + experiment}
	}
	return rangeOf(bench.Summarise(values)), float64(body), nil
}

func rangeOf(s bench.Stat) Range { return Range{s.Median, s.Low, s.High} }
