package remotesign

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"slices"
	"testing"
	"time"
)

// BenchmarkRemoteSign signs in turn by a key in memory, by the store, which keeps its
// audit, and by a server of that store on loopback. It reports medians in µs: what the
// server adds to the key in memory (150 is the aim), and of that what the wire adds.
func BenchmarkRemoteSign(b *testing.B) {
	w := newWorld(b)
	addr, _ := w.server(b, "127.0.0.1:0", siteRules)
	remote, err := w.client(b, "edge", nil, addr).Signer(b.Context(), "site", PurposeServer)
	if err != nil {
		b.Fatal(err)
	}
	stored, err := w.store.Signer(b.Context(), "site", PurposeServer)
	if err != nil {
		b.Fatal(err)
	}
	digest := sha256.Sum256([]byte("x"))
	arms := []crypto.Signer{w.key, stored, remote}
	times := make([][]time.Duration, len(arms))
	sign := func(arm crypto.Signer) time.Duration {
		begun := time.Now()
		if _, err := arm.Sign(rand.Reader, digest[:], crypto.SHA256); err != nil {
			b.Fatal(err)
		}
		return time.Since(begun)
	}
	sign(remote) // connects
	for b.Loop() {
		for i, arm := range arms {
			times[i] = append(times[i], sign(arm))
		}
	}
	median := func(arm int) float64 {
		slices.Sort(times[arm])
		return float64(times[arm][len(times[arm])/2].Nanoseconds()) / 1e3
	}
	memory, store, server := median(0), median(1), median(2)
	b.ReportMetric(server-memory, "added-µs")
	b.ReportMetric(server-store, "wire-µs")
	b.ReportMetric(memory, "memory-µs")
}
