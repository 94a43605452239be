package handshakes

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hanzoai/pqgw/bench"
)

func init() { bench.RegisterRole(primitivesRole, openPrimitives) }

// Who implements a primitive: Go's standard library, as crypto/tls uses it,
// or circl.
const (
	libGo    = "go"
	libCircl = "circl"
)

// Steps of key exchanges and signatures.
const (
	keygen      = "key pair"
	agree       = "shared secret"
	encapsulate = "encapsulate" // with parsing the peer's key
	decapsulate = "decapsulate"
	sign        = "sign"
	verify      = "verify"
	derive      = "all secrets" // of a TLS 1.3 handshake
	seal        = "seal 1 KiB"
)

// primitive is one operation by one implementation. prepare makes what it
// needs and returns the operation.
type primitive struct {
	Library, Scheme, Step string
	prepare               func() (func() error, error)
}

func (p primitive) name() string { return p.Scheme + " " + p.Step + " (" + p.Library + ")" }

func (p primitive) labels() map[string]string {
	return map[string]string{"library": p.Library, "scheme": p.Scheme, "step": p.Step, "primitive": p.Scheme + " " + p.Step}
}

// primitives are all that are measured, one library after the other.
func primitives() []primitive {
	var out []primitive
	out = append(out, goKEMs()...)
	out = append(out, goCurves()...)
	out = append(out, goSignatures()...)
	out = append(out, goSymmetric()...)
	return append(out, circlPrimitives()...)
}

// calculation tells the child which primitive to run.
type calculation struct {
	Name  string      `json:"name"`
	Slice bench.Slice `json:"slice"`
}

// openPrimitives is the role of the process that runs them: nothing else
// happens in it.
func openPrimitives(context.Context, json.RawMessage) (map[string]bench.Verb, func(), error) {
	ready := make(map[string]func() error)
	all := make(map[string]primitive)
	for _, p := range primitives() {
		all[p.name()] = p
	}
	run := func(_ context.Context, args json.RawMessage) (any, error) {
		var c calculation
		if err := json.Unmarshal(args, &c); err != nil {
			return nil, err
		}
		op := ready[c.Name]
		if op == nil {
			p, ok := all[c.Name]
			if !ok {
				return nil, fmt.Errorf("no primitive %q", c.Name)
			}
			var err error
			if op, err = p.prepare(); err != nil {
				return nil, fmt.Errorf("%s: %w", c.Name, err)
			}
			ready[c.Name] = op
		}
		return bench.Compute(c.Slice, batch, func(n int) error {
			for range n {
				if err := op(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return map[string]bench.Verb{"run": run}, func() {}, nil
}

// batch is how many operations pass between looks at the clock.
const batch = 16
