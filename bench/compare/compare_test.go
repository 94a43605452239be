package compare

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/hanzoai/pqgw/bench"
	_ "github.com/hanzoai/pqgw/internal/benchgateway" // the gateway's role
	"github.com/hanzoai/pqgw/internal/peers"
)

func TestMain(m *testing.M) {
	bench.RunChild()
	goleak.VerifyTestMain(m)
}

// TestEveryGatewayDoesTheSameWork runs the whole comparison with few
// operations. The load compares a body on each connection and every length.
func TestEveryGatewayDoesTheSameWork(t *testing.T) {
	r, err := bench.Run(t.Context(), bench.Options{Rounds: 1, Ops: 16}, nil, Bench)
	if err != nil {
		t.Fatal(err)
	}
	missing := make(map[string]string)
	cells := r.Bench("compare").Experiment("compare").Cells
	for _, c := range cells {
		if c.Missing != "" {
			missing[c.Labels["gateway"]] = c.Missing
			continue
		}
		if s, ok := c.Measured(ServerCPU); !ok || s.Median <= 0 {
			t.Errorf("%s: %+v", c.Name, s)
		}
	}
	if n, want := len(cells), 4*(4*3+2)+3*3; n != want {
		t.Errorf("%d arms, wanted %d", n, want)
	}
	for _, name := range []string{"nginx", "HAProxy"} {
		if why := missing[name]; why != "" {
			peers.NewTrixie(t) // skips, or fails where peers are required
			t.Errorf("%s is installed and not there: %s", name, why)
		}
	}
	if why := missing["Caddy"]; why != "" {
		t.Logf("Caddy: %s", why)
	}
	if why := missing[ours]; why != "" {
		t.Errorf("we are not there: %s", why)
	}
}
