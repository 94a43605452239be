package throughput

import (
	"context"
	"errors"
	"os/exec"
	"testing"

	"go.uber.org/goleak"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/link"
	"github.com/hanzoai/pqgw/bench/load"
	_ "github.com/hanzoai/pqgw/internal/benchgateway" // the gateway's role
)

func TestMain(m *testing.M) {
	link.RunWire()
	bench.RunChild()
	goleak.VerifyTestMain(m)
}

func missing() map[string]bool {
	out := make(map[string]bool)
	for _, t := range load.Transports {
		out[t.Name] = t.Missing() != ""
	}
	return out
}

// TestEveryArmRunsEndToEnd runs the whole matrix with few requests. Each round
// of each arm begins with an exchange whose body is compared.
func TestEveryArmRunsEndToEnd(t *testing.T) {
	r, err := bench.Run(t.Context(), bench.Options{Rounds: 1, Ops: 4}, nil, Bench)
	if err != nil {
		t.Fatal(err)
	}
	d := r.Bench("throughput")
	if n, want := len(d.Experiment("closed").Cells), len(sizes)*(1+len(load.Transports)*4); n != want {
		t.Errorf("%d arms, wanted %d", n, want)
	}
	absent := missing()
	for _, e := range d.Experiments {
		for _, c := range e.Cells {
			if absent[c.Labels["transport"]] {
				if c.Missing == "" {
					t.Errorf("%s: nothing says that it is not there", c.Name)
				}
				continue
			}
			if s, ok := c.Measured(ServerCPU); !ok || s.Median <= 0 {
				t.Errorf("%s, %s: %+v", e.Name, c.Name, s)
			}
		}
	}
}

func TestAcrossALinkNothingIsFasterThanIt(t *testing.T) {
	spec := link.Default
	spec.Name, spec.Links, spec.Rate = "benchtest", 2, 500_000_000
	if _, err := link.Down(t.Context(), spec.Name); err == nil {
		_, err = link.Up(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
	} else if errors.Is(err, link.ErrPermission) || errors.Is(err, link.ErrUnsupported) || errors.Is(err, exec.ErrNotFound) {
		t.Skipf("no link lab here: %v", err)
	} else {
		t.Fatal(err)
	}
	defer func() {
		if _, err := link.Down(context.Background(), spec.Name); err != nil {
			t.Error(err)
		}
	}()
	r, err := bench.Run(t.Context(), bench.Options{Rounds: 1, Ops: 16}, nil, New(Filter{Sizes: []int{1 << 20}}).Across(spec.Name))
	if err != nil && r == nil {
		t.Fatal(err)
	}
	d := r.Bench("throughput" + bench.LinkSuffix)
	if rows := d.Tables[0].Rows; len(rows) < 4 || rows[0][len(rows[0])-1] == "" {
		t.Errorf("what stopped the rows is not told: %v", rows)
	}
	for _, c := range d.Experiment("closed").Cells {
		if c.Missing != "" {
			continue
		}
		share := bench.Median(c.Values(LinkShare))
		t.Logf("%s: %.0f %%", c.Name, share)
		// What the buckets hold and what the sockets have taken goes faster than the
		// line: a few of 16 MiB.
		if !(share > 5 && share < 125) {
			t.Errorf("%s: %.1f %% of the link; %s", c.Name, share, c.Failed)
		}
	}
}

func TestBoundNamesWhatIsFull(t *testing.T) {
	for _, c := range []struct {
		busy
		want string
	}{
		{busy{95, 0.9, 0.8, 0.15}, "the line"},
		{busy{80, 0.99, 0.4, 0.1}, "the server's CPU"},
		{busy{80, 0.4, 0.9, 0.07}, "the load generator's CPU"},
		{busy{80, 0.4, 0.5, 0.45}, "the CPU that load generator and origin share"},
		{busy{10, 0.1, 0.2, 0}, "waiting: windows, losses, or what else ran"},
	} {
		if got := c.bound(); got != c.want {
			t.Errorf("%+v: %s", c.busy, got)
		}
	}
	if got := (busy{server: 0.25, client: 0.4, origin: 0.1}).ceiling(1); got != 2 {
		t.Errorf("half of a CPU carries 1, a whole one %v", got)
	}
}

func TestFilterRefusesWhatIsNotThere(t *testing.T) {
	for _, f := range []Filter{{Transports: []string{"h9"}}, {Sizes: []int{-1}}, {Sizes: []int{load.MaxBody + 1}}} {
		if f.Check() == nil {
			t.Errorf("%+v is taken", f)
		}
	}
	if err := (Filter{Transports: []string{"h1", "zap+tls"}, Sizes: []int{0}}).Check(); err != nil {
		t.Error(err)
	}
}
