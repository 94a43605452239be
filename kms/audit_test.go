package kms

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// auditStore is a store whose audit has some lines, and the log's lines.
func auditStore(t *testing.T) (*Store, [][]byte) {
	t.Helper()
	s, _ := newStore(t)
	put(t, s, "a", "one")
	put(t, s, "b", "one")
	for range 3 {
		get(t, s, "a")
	}
	put(t, s, "a", "two")
	get(t, s, "a")
	get(t, s, "b")
	data, err := os.ReadFile(filepath.Join(s.Dir(), auditFile))
	if err != nil {
		t.Fatal(err)
	}
	return s, slices.Collect(bytes.Lines(data))
}

func writeLog(t *testing.T, s *Store, lines [][]byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.Dir(), auditFile), bytes.Join(lines, nil), 0o600); err != nil {
		t.Fatal(err)
	}
}

func wantProblem(t *testing.T, s *Store, anchor Head, part string) {
	t.Helper()
	report, err := s.VerifyAudit(t.Context(), anchor)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(report.Problems, func(p string) bool { return strings.Contains(p, part) }) {
		t.Errorf("no problem says %q: %q", part, report.Problems)
	}
}

func TestAuditHasALineForEachUse(t *testing.T) {
	s, lines := auditStore(t)
	var ops []string
	for _, line := range lines {
		l, _, _, err := parseLine(line)
		if err != nil {
			t.Fatal(err)
		}
		if l.Actor != "test" || l.PID != os.Getpid() || l.Time.IsZero() {
			t.Errorf("line %+v", l)
		}
		ops = append(ops, l.Op)
	}
	want := "put stored put stored get get get put stored get get"
	if got := strings.Join(ops, " "); got != want {
		t.Errorf("lines are %s, want %s", got, want)
	}
	if report := wantCleanAudit(t, s); report.Lines != 11 || !strings.HasPrefix(string(report.Head), "11:") {
		t.Errorf("report is %+v", report)
	}
}

func TestAuditNoticesWhatWasDoneToIt(t *testing.T) {
	tests := []struct {
		name   string
		change func([][]byte) [][]byte
		part   string
	}{
		{"a byte changed", func(l [][]byte) [][]byte {
			l[5] = bytes.Replace(l[5], []byte(`"name":"a"`), []byte(`"name":"b"`), 1)
			return l
		}, "its MAC is wrong"},
		{"a line removed in the middle", func(l [][]byte) [][]byte { return slices.Delete(l, 4, 5) }, "lines are missing"},
		{"the first line removed", func(l [][]byte) [][]byte { return l[1:] }, "lines are missing"},
		{"two lines swapped", func(l [][]byte) [][]byte { l[4], l[5] = l[5], l[4]; return l }, "lines are missing"},
		{"a line twice", func(l [][]byte) [][]byte { return slices.Insert(l, 4, l[4]) }, "lines are missing"},
		{"cut at the end", func(l [][]byte) [][]byte { return l[:9] }, "it was cut"},
		{"all removed", func([][]byte) [][]byte { return nil }, "it was cut"},
		{"rubbish in between", func(l [][]byte) [][]byte { return slices.Insert(l, 4, []byte("rubbish\n")) }, "unfinished line"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, lines := auditStore(t)
			writeLog(t, s, test.change(lines))
			wantProblem(t, s, "", test.part)
			// Lines that come later do not heal it.
			get(t, s, "b")
			wantProblem(t, s, "", "")
		})
	}
}

func TestAuditWrittenAnewWithoutTheMasterIsNoticed(t *testing.T) {
	s, _ := auditStore(t)
	forger, master := newStore(t)
	_ = master
	put(t, forger, "a", "evil")
	log, err := os.ReadFile(filepath.Join(forger.Dir(), auditFile))
	if err != nil {
		t.Fatal(err)
	}
	writeLog(t, s, [][]byte{log})
	wantProblem(t, s, "", "its MAC is wrong")
}

func TestAuditPutBackWithItsHeadIsNoticedByEntriesAndByAnchor(t *testing.T) {
	s, _ := newStore(t)
	put(t, s, "a", "one")
	log, head := filepath.Join(s.Dir(), auditFile), filepath.Join(s.Dir(), headFile)
	oldLog, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	oldHead, err := os.ReadFile(head)
	if err != nil {
		t.Fatal(err)
	}
	putBack := func() {
		for path, data := range map[string][]byte{log: oldLog, head: oldHead} {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	get(t, s, "a")
	anchor := wantCleanAudit(t, s).Head
	putBack()
	wantProblem(t, s, anchor, "head given")
	put(t, s, "b", "one")
	putBack()
	wantProblem(t, s, "", `entry "b": no line tells of it`)
}

func TestEntriesPutBackAreNoticed(t *testing.T) {
	s, _ := newStore(t)
	put(t, s, "a", "one")
	old, err := os.ReadFile(s.path("a"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", "two")
	restore := func() {
		if err := os.WriteFile(s.path("a"), old, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	restore()
	wantProblem(t, s, "", `version 1 of line 1 is there, version 2`)
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	wantCleanAudit(t, s)
	restore()
	wantProblem(t, s, "", "it was deleted, and put back")
	put(t, s, "b", "one")
	if err := os.Remove(s.path("b")); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, s, "", "is not there")
}

func TestAnUnfinishedLineIsAccountedFor(t *testing.T) {
	for _, fragment := range []string{"{", `{"seq":12,"ti`, "half\n", "half\nand half"} {
		s, lines := auditStore(t)
		writeLog(t, s, append(lines, []byte(fragment)))
		if report := wantCleanAudit(t, s); report.Torn != 1 {
			t.Errorf("%q: report %+v", fragment, report)
		}
		get(t, s, "a")
		if report := wantCleanAudit(t, s); report.Torn != 1 || report.Lines != 12 {
			t.Errorf("%q: report %+v", fragment, report)
		}
	}
}

func TestAKeyIsNotUsedWithoutItsLine(t *testing.T) {
	s, _ := newStore(t)
	put(t, s, "a", "one")
	if err := s.audit.file.Close(); err != nil {
		t.Fatal(err)
	}
	value, _, err := s.Get(t.Context(), "a", "test")
	if err == nil || value != nil {
		t.Errorf("got a value with the audit closed")
	}
	s.audit.file, err = os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
}

func BenchmarkAuditLine(b *testing.B) {
	s, _ := newStore(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.audit.append(Line{Op: opSign, Name: "edge", Kind: KindCertificate, Version: 1, Purpose: "tls"}); err != nil {
			b.Fatal(err)
		}
	}
}
