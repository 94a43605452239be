package calls

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/codec"
)

func TestMain(m *testing.M) {
	bench.RunChild()
	goleak.VerifyTestMain(m)
}

// TestEveryWayAnswersTheCall runs all arms with few calls; each answer is
// compared by the client, each field of each request by the server.
func TestEveryWayAnswersTheCall(t *testing.T) {
	r, err := bench.Run(t.Context(), bench.Options{Quick: true, Rounds: 1, Ops: 64}, nil, Bench)
	if err != nil {
		t.Fatal(err)
	}
	cells := r.Bench("calls").Experiment("calls").Cells
	if n, want := len(cells), 2+3*len(codec.JSONCodecs()); n != want {
		t.Errorf("%d arms, wanted %d", n, want)
	}
	table := r.Bench("calls").Tables[0]
	if n, want := len(table.Rows), 2*len(codec.JSONCodecs()); n != want || !strings.Contains(table.Rows[0][1], "×") || !strings.Contains(table.Rows[0][2], "×") {
		t.Errorf("against JSON: %v", table.Rows)
	}
	for _, c := range cells {
		if s, ok := c.Measured(ServerCPU); !ok || s.Median <= 0 {
			t.Errorf("%s: %+v %s", c.Name, s, c.Failed)
		}
	}
}

func TestAnotherRequestIsRefused(t *testing.T) {
	q := codec.SampleRequest
	q.Block++
	body, err := codec.AppendRequest(nil, &q)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := answer(nil, []byte(zapPath), body); err == nil {
		t.Errorf("it is answered by %d bytes", len(out))
	}
	if _, err := answer(nil, []byte("/nosuch"), body); err == nil {
		t.Error("an unknown codec answers")
	}
}
