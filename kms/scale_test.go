package kms

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// fill puts n certificates with keys, and chains of the usual length, without
// waiting for the disk at each.
func fill(t testing.TB, s *Store, n int) {
	t.Helper()
	value, _, err := Generate(AlgorithmECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	defer value.Close()
	v, err := s.view()
	if err != nil {
		t.Fatal(err)
	}
	chain := []byte(strings.Repeat("certificate ", 250))
	for i := range n {
		info := Info{Name: fmt.Sprintf("certificates/%d.example.com", i), Kind: KindCertificate, Version: 1, Created: time.Now(), Size: value.Len(), Public: chain}
		info.Rotated = info.Created
		data, err := v.sealSecret(head{Info: info, Store: v.header.Store, Epoch: v.header.Epoch}, value)
		if err == nil {
			err = os.WriteFile(s.path(info.Name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// residentBytes is the process's resident memory.
func residentBytes(t testing.TB) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("no /proc/self/status here")
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// A store of 10,000 certificates opens, and tells all their names and chains,
// authenticated, within 2 s and 100 MiB. Keys are unsealed when first used.
func TestALargeStoreStartsSoonAndSmall(t *testing.T) {
	const seconds, limit = 2, 100 << 20
	n := 10_000
	if testing.Short() {
		n = 500
	}
	s, master := newStore(t)
	fill(t, s, n)
	runtime.GC()
	before := residentBytes(t)
	start := time.Now()
	large := reopen(t, s.Dir(), master)
	opened := time.Since(start)
	infos, damaged, err := large.List()
	listed := time.Since(start)
	if err != nil || len(infos) != n || len(damaged) != 0 {
		t.Fatalf("%d of %d, %d damaged, %v", len(infos), n, len(damaged), err)
	}
	grown := residentBytes(t) - before
	get(t, large, infos[n/2].Name)
	t.Logf("%d entries: open %v, all listed with their chains %v, memory grown by %d MiB", n, opened, listed, grown>>20)
	if !raceEnabled && listed > seconds*time.Second {
		t.Errorf("%d entries took %v", n, listed)
	}
	if !raceEnabled && grown > limit {
		t.Errorf("%d entries took %d MiB", n, grown>>20)
	}
}

func BenchmarkOpen(b *testing.B) {
	s, master := newStore(b)
	fill(b, s, 1000)
	b.ReportAllocs()
	for b.Loop() {
		large, err := Open(s.Dir(), Options{Master: master})
		if err != nil {
			b.Fatal(err)
		}
		_ = large.Close()
	}
}

func BenchmarkUnseal(b *testing.B) {
	s, _ := newStore(b)
	put(b, s, "a", "one")
	d, v, err := s.read("a")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		value, err := d.open(v.keys)
		if err != nil {
			b.Fatal(err)
		}
		_ = value.Close()
	}
}

func BenchmarkStat(b *testing.B) {
	s, _ := newStore(b)
	put(b, s, "a", "one")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Stat("a"); err != nil {
			b.Fatal(err)
		}
	}
}
