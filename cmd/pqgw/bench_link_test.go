package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/link"
	"github.com/hanzoai/pqgw/bench/report"
	"github.com/hanzoai/pqgw/bench/tune"
)

// invoke runs one command line.
func invoke(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &out, &errs)
	return out.String(), errs.String(), code
}

func TestLinkRefusesWhatCannotBe(t *testing.T) {
	for _, args := range [][]string{
		{"--rate", "fast"},
		{"--links", "3"},
		{"--hosts", "1"},
		{"--mtu", "1"},
		{"--rtt", "5m"},
		{"--shaper", "netem"},
		{"--name", "../x"},
		{"--congestion", "a b"},
		{"--output", "xml"},
	} {
		if out, errs, code := invoke(t, append([]string{"bench", "link", "up"}, args...)...); code != exitUsage || out != "" || errs == "" {
			t.Errorf("%v: code %d, %q, %q", args, code, out, errs)
		}
	}
}

func TestLinkGoesUpIsShownAndGoesDown(t *testing.T) {
	out, errs, code := invoke(t, "bench", "link", "up", "--name", "cmdtest", "--hosts", "2", "--rate", "1gbit", "--output", "json")
	if code == exitBind || runtime.GOOS != "linux" {
		t.Skipf("no link lab here: %s", errs)
	}
	t.Cleanup(func() { _, _, _ = invoke(t, "bench", "link", "down", "--name", "cmdtest") })
	var shown []link.Status
	if err := json.Unmarshal([]byte(out), &shown); err != nil || code != exitOK {
		t.Fatalf("code %d, %v: %q %q", code, err, out, errs)
	}
	if len(shown) != 1 || shown[0].Rate != 1_000_000_000 || len(shown[0].Ends) != 2 || shown[0].Broken != "" {
		t.Errorf("%+v", shown)
	}
	if out, _, _ := invoke(t, "bench", "link", "show"); !strings.Contains(out, "cmdtest: 2 hosts, 1 link(s) of 1gbit by tbf") {
		t.Errorf("%s", out)
	}
	if _, errs, code := invoke(t, "bench", "link", "up", "--name", "cmdtest"); code != exitFailed || !strings.Contains(errs, "link down --name cmdtest") {
		t.Errorf("a second one: code %d, %s", code, errs)
	}
	if out, _, code := invoke(t, "bench", "link", "down", "--name", "cmdtest"); code != exitOK || out != "removed pqgw-cmdtest-gateway, pqgw-cmdtest-load\n" {
		t.Errorf("down: code %d, %s", code, out)
	}
	if out, _, code := invoke(t, "bench", "link", "down", "--name", "cmdtest"); code != exitOK || out != "there was none\n" {
		t.Errorf("down again: code %d, %s", code, out)
	}
}

func TestBenchAcrossALinkThatIsNotThereSaysHowToMakeIt(t *testing.T) {
	if os.Geteuid() != 0 || runtime.GOOS != "linux" {
		t.Skip("link labs need root on Linux")
	}
	_, errs, code := invoke(t, "bench", "layers", "--quick", "--link", "nosuchlab")
	if code != exitFailed || !strings.Contains(errs, "pqgw bench link up") {
		t.Errorf("code %d, %s", code, errs)
	}
}

func TestBenchAllMakesItsLinkAndTakesItDown(t *testing.T) {
	dir := t.TempDir()
	_, errs, code := invoke(t, "bench", "all", "--quick", "--rounds", "1", "--ops", "64", "--only", "calls,codec", "--out", dir, "--link=cmdall")
	if code == exitBind || runtime.GOOS != "linux" {
		t.Skipf("no link lab here: %s", errs)
	}
	if code != exitOK {
		t.Fatalf("code %d, %s", code, errs)
	}
	r, err := bench.Read(filepath.Join(dir, report.ResultsFile))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, b := range r.Benches {
		names = append(names, b.Name)
	}
	if got := strings.Join(names, " "); got != "codec calls calls"+bench.LinkSuffix || len(r.Ahead) > 0 {
		t.Errorf("benches %s, ahead %v", got, r.Ahead)
	}
	i := slices.IndexFunc(r.Environment.Interfaces, func(i bench.Interface) bool { return i.Name == "gateway link0" })
	if i < 0 {
		t.Fatalf("the link is not among %+v", r.Environment.Interfaces)
	}
	if f := r.Environment.Interfaces[i]; f.MTU != 1500 || f.RxQueues != 1 || f.TxQueues != 1 || !strings.Contains(f.Qdisc, "tbf") || !f.Offloads["gso"] {
		t.Errorf("the link is %+v", f)
	}
	if out, _, _ := invoke(t, "bench", "link", "show"); strings.Contains(out, "cmdall") {
		t.Errorf("the lab is still there:\n%s", out)
	}
}

func TestTheNameOfALinkMayStandApart(t *testing.T) {
	if os.Geteuid() != 0 || runtime.GOOS != "linux" {
		t.Skip("link labs need root on Linux")
	}
	for _, args := range [][]string{{"--link=nosuchlab"}, {"--link", "nosuchlab"}} {
		if _, errs, code := invoke(t, append([]string{"bench", "calls", "--quick"}, args...)...); code != exitFailed || !strings.Contains(errs, "nosuchlab") {
			t.Errorf("%v: code %d, %s", args, code, errs)
		}
	}
	if _, errs, code := invoke(t, "bench", "calls", "nosuchlab"); code != exitUsage {
		t.Errorf("a name without the flag: code %d, %s", code, errs)
	}
	if _, errs, code := invoke(t, "bench", "codec", "--link"); code != exitUsage {
		t.Errorf("a bench without connections: code %d, %s", code, errs)
	}
}

// TestTunePlanTellsWhatIsAndWouldBe changes nothing: plan only reads.
func TestTunePlanTellsWhatIsAndWouldBe(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("tuning is for Linux")
	}
	out, errs, code := invoke(t, "tune", "plan", "--output", "json")
	var p tune.Plan
	if err := json.Unmarshal([]byte(out), &p); err != nil || code != exitOK {
		t.Fatalf("code %d, %v: %q", code, err, errs)
	}
	for _, s := range p.Settings {
		if s.Name == "" || s.Why == "" || s.State != tune.Absent && (s.Is == "" || s.Want == "") || s.State == tune.Absent && s.Note == "" {
			t.Errorf("%+v", s)
		}
	}
	if out, _, code := invoke(t, "tune", "plan"); code != exitOK || !strings.Contains(out, "net.core.somaxconn") || !strings.Contains(out, "WHY") {
		t.Errorf("code %d, %s", code, out)
	}
	if _, errs, code := invoke(t, "tune", "plan", "--nic", "nosuch0"); code != exitUsage || !strings.Contains(errs, "nosuch0") {
		t.Errorf("no such interface: code %d, %s", code, errs)
	}
	if out, _, code := invoke(t, "tune", "revert", "--record", t.TempDir()+"/none.json"); code != exitOK || out != "there is nothing to put back\n" {
		t.Errorf("revert without a record: code %d, %s", code, out)
	}
}

func TestThroughputRefusesUnknownRows(t *testing.T) {
	for _, args := range [][]string{{"--transport", "h9"}, {"--size", "-1"}, {"--size", "99999999"}} {
		if _, errs, code := invoke(t, append([]string{"bench", "throughput"}, args...)...); code != exitUsage || errs == "" {
			t.Errorf("%v: code %d, %s", args, code, errs)
		}
	}
}
