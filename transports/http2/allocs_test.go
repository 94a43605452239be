//go:build !race

package http2

import "testing"

// Under the race detector pools forget at random, so this counts only without.
func TestServingAllocatesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for a second")
	}
	r := testing.Benchmark(BenchmarkServe1k)
	if r.N < 1000 {
		t.Skipf("only %d requests on this machine now", r.N)
	}
	if n := r.AllocsPerOp(); n > 0 {
		t.Errorf("%d allocations a request", n)
	}
}
