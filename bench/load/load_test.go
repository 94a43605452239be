package load

import (
	"bytes"
	"crypto/tls"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/identity"
	"github.com/hanzoai/pqgw/exchange"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ends starts an origin in this process and gives the work towards it.
func ends(t *testing.T) (addrs map[string]string, w Work) {
	t.Helper()
	id, err := identity.New("ECDSA P-256")
	if err != nil {
		t.Fatal(err)
	}
	addrs, end, err := OriginSettings{Host: "127.0.0.1", Identity: id, Group: tls.X25519MLKEM768}.Listen(handler{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return addrs, Work{Root: id.Root, Group: tls.X25519MLKEM768, Workers: 5}
}

func client(t *testing.T) map[string]bench.Verb {
	t.Helper()
	verbs, end, err := openClient(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return verbs
}

// TestEveryTransportCarriesTheSameBytes compares bodies both ways by every
// transport, sizes from nothing to a mebibyte.
func TestEveryTransportCarriesTheSameBytes(t *testing.T) {
	addrs, w := ends(t)
	verbs := client(t)
	for _, tr := range Transports {
		if why := tr.Missing(); why != "" {
			t.Logf("%s: %s", tr.Name, why)
			continue
		}
		for _, size := range []int{0, 1, 1 << 10, 64 << 10, 1<<20 - 1, 1 << 20} {
			for _, w.Upload = range []bool{false, true} {
				w.Transport, w.Addresses, w.Size = tr.Name, []string{addrs[tr.Listener()]}, size
				call(t, verbs, "connect", w)
				d := call(t, verbs, "closed", bench.Slice{For: time.Minute, Ops: 10}).(Done)
				if d.Ops != 10 || d.Wall <= 0 {
					t.Errorf("%s, %d bytes, upload %t: %+v", tr.Name, size, w.Upload, d)
				}
				call(t, verbs, "disconnect", nil)
			}
		}
	}
}

func TestOtherBytesAreSeen(t *testing.T) {
	body := bytes.Clone(pattern()[:4<<10])
	if n, err := drain(exchange.NewBytes(body), true); n != 4<<10 || err != nil {
		t.Errorf("the pattern: %d bytes, %v", n, err)
	}
	body[700]++
	if _, err := drain(exchange.NewBytes(body), true); !errors.Is(err, errDiffers) {
		t.Errorf("one byte differs: %v", err)
	}
	if same(make([]byte, 2), MaxBody-1) {
		t.Error("more than the pattern passes for it")
	}
}

func TestConstantRateIsKeptAndTimed(t *testing.T) {
	addrs, w := ends(t)
	w.Transport, w.Addresses, w.Size = "zap", []string{addrs["zap"]}, 1<<10
	verbs := client(t)
	call(t, verbs, "connect", w)
	d := call(t, verbs, "open", Pace{Rate: 500, For: 400 * time.Millisecond}).(Timed)
	if d.Ops != 200 || d.Wall < 390*time.Millisecond || d.P50 <= 0 || d.P50 > d.P99 || d.P99 > d.P999 || d.P999 > d.Max+d.Max/100 {
		t.Errorf("%+v", d)
	}
}

// TestWaitingCountsAsLatency asks for far more than can be served: with
// coordinated omission the times would be those of single requests.
func TestWaitingCountsAsLatency(t *testing.T) {
	addrs, w := ends(t)
	w.Transport, w.Addresses, w.Size, w.Workers = "h1 clear", []string{addrs["clear"]}, 1<<20, 1
	verbs := client(t)
	call(t, verbs, "connect", w)
	d := call(t, verbs, "open", Pace{Rate: 1e6, For: 200 * time.Microsecond}).(Timed)
	if each := d.Wall / time.Duration(d.Ops); d.Ops != 200 || d.P99 < 50*each || d.Late == 0 {
		t.Errorf("%+v, each takes %v", d, each)
	}
}
