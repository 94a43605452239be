//go:build linux

package tune

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// inside is set in a test that has a network namespace and a /sys of its own.
const inside = "PQGW_TEST_TUNE_INSIDE"

// inNamespace runs the calling test once more in a new namespace and reports
// what came of it; it returns true there.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inside) == "1" {
		if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
			t.Fatalf("mount /sys: %v", err)
		}
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	before := files(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil && strings.Contains(err.Error(), "not permitted") {
		t.Skipf("network namespaces are not permitted here: %v", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("in the namespace: %v\n%s", err, out)
	}
	compare(t, "the machine's own", before, files(t))
	return false
}

// files are the contents of all that a plan could touch and more.
func files(t *testing.T) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for _, root := range []string{"/proc/sys/net/core", "/proc/sys/net/ipv4", "/sys/class/net", "/sys/devices/system/cpu"} {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Type()&fs.ModeSymlink != 0 || strings.Contains(path, "cpuidle") || strings.Contains(path, "cur_freq") {
				return nil //nolint:nilerr // what cannot be listed is not compared
			}
			if data, err := os.ReadFile(path); err == nil {
				out[path] = string(data)
			}
			return nil
		})
	}
	for _, i := range entries(t, "/sys/class/net") {
		for _, pattern := range []string{"mtu", "tx_queue_len", "queues/*/*"} {
			paths, _ := filepath.Glob(filepath.Join("/sys/class/net", i, pattern))
			for _, p := range paths {
				if data, err := os.ReadFile(p); err == nil {
					out[p] = string(data)
				}
			}
		}
		for _, o := range offloads {
			out[i+" "+o.name], _ = offload{i, o.get, o.set}.read()
		}
	}
	return out
}

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func compare(t *testing.T, what string, before, after map[string]string) {
	t.Helper()
	for path, was := range before {
		if is, ok := after[path]; !ok || is != was {
			t.Errorf("%s %s: %q before, %q after", what, path, was, is)
		}
	}
}

// wire makes a pair of interfaces, one of them detuned.
func wire(t *testing.T) string {
	t.Helper()
	for _, args := range [][]string{
		{"link", "add", "tune0", "numrxqueues", "2", "numtxqueues", "2", "type", "veth", "peer", "name", "tune1"},
		{"link", "set", "tune0", "up"},
		{"link", "set", "tune1", "up"},
	} {
		if out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out)
		}
	}
	for _, o := range offloads {
		if o.name == "gso" || o.name == "gro" {
			if err := (offload{"tune0", o.get, o.set}).write("off"); err != nil {
				t.Fatal(err)
			}
		}
	}
	return "tune0"
}

func TestApplyThenRevertLeavesEveryFileAsBefore(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	nic, record := wire(t), filepath.Join(t.TempDir(), "tune.json")
	before := files(t)
	p := plan(t, nic)
	if err := p.Apply(record); err != nil {
		t.Fatal(err)
	}
	changed := make(map[string]bool)
	for _, s := range p.Settings {
		changed[s.Name] = s.State == Changed
		t.Logf("%-8s %s: %q, wanted %q %s", s.State, s.Name, s.Is, s.Want, s.Note)
	}
	for _, name := range []string{"net.core.somaxconn", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_wmem", "tune0 gso", "tune0 rx-0 rps_cpus", "tune0 rx-1 rps_flow_cnt", "tune0 tx-1 xps_cpus"} {
		if !changed[name] {
			t.Errorf("%s has not been changed", name)
		}
	}
	if maps.Equal(before, files(t)) {
		t.Error("nothing has changed")
	}
	again(t, nic, record)
	out, err := Revert(record)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range out {
		if s.State != Restored {
			t.Errorf("%s: %s %s", s.Name, s.State, s.Note)
		}
	}
	compare(t, "the namespace's", before, files(t))
	if _, err := os.Stat(record); !os.IsNotExist(err) {
		t.Errorf("the record is still there: %v", err)
	}
	if out, err := Revert(record); err != nil || len(out) != 0 {
		t.Errorf("a second revert: %v, %v", out, err)
	}
}

// again applies a second time, also after one setting has come undone: what
// was first stays on record.
func again(t *testing.T, nic, record string) {
	t.Helper()
	first, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range plan(t, nic).Settings {
		if s.State == Change {
			t.Errorf("%s would be changed again: %q to %q", s.Name, s.Is, s.Want)
		}
	}
	if err := sysctl("net.core.somaxconn").write("77"); err != nil {
		t.Fatal(err)
	}
	if err := plan(t, nic).Apply(record); err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	if string(first) != string(second) {
		t.Errorf("the record was %s and is %s", first, second)
	}
}

func plan(t *testing.T, nic string) *Plan {
	t.Helper()
	p, err := Make(nic)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNamespaceLeavesTheMachineAlone(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	p := plan(t, wire(t))
	if !p.Namespaced {
		t.Error("the namespace is not seen")
	}
	for _, s := range p.Settings {
		machine := s.Name == "governor"
		for _, c := range sysctls {
			machine = machine || c.machine && c.name == s.Name
		}
		if machine && (s.State != Absent || s.knob != nil) {
			t.Errorf("%s: %s", s.Name, s.State)
		}
	}
}

func TestWhatTheKernelRefusesIsTold(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	p := &Plan{}
	p.add(propose("net.ipv4.ip_local_port_range", "", sysctl("net.ipv4.ip_local_port_range"), exactly("70000\t80000")))
	p.add(propose("net.core.somaxconn", "", sysctl("net.core.somaxconn"), exactly("1234")))
	if err := p.Apply(filepath.Join(t.TempDir(), "tune.json")); err != nil {
		t.Fatal(err)
	}
	if s := p.Settings[0]; s.State != Refused || s.Note == "" {
		t.Errorf("%+v", s)
	}
	if s := p.Settings[1]; s.State != Changed || s.Is != "1234" {
		t.Errorf("%+v", s)
	}
}

// TestSysOfAnotherNamespaceIsNotTouched: without a /sys of its own a namespace
// sees the queues of interfaces that are not its own.
func TestSysOfAnotherNamespaceIsNotTouched(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	if err := unix.Unmount("/sys", 0); err != nil {
		t.Fatal(err)
	}
	for _, s := range plan(t, wire(t)).Settings {
		if strings.Contains(s.Name, "_cpus") || strings.Contains(s.Name, "rps_flow") {
			t.Errorf("%s is proposed", s.Name)
		}
	}
}

func TestBetterNeverLowers(t *testing.T) {
	for _, c := range []struct {
		is, want string
		better   func(string) (string, error)
	}{
		{"4096\t131072\t6291456", "4096\t131072\t33554432", atLeast(0, 0, window)},
		{"4096 131072 99999999", "4096 131072 99999999", atLeast(0, 0, window)},
		{"32768\t60999", "10240\t65535", widest(lowPort, highPort)},
		{"1024\t65535", "1024\t65535", widest(lowPort, highPort)},
		{"00000000,00000003", "00000000,00000003", sameMask(allCPUs(2))},
		{"0", "3", sameMask(allCPUs(2))},
	} {
		if got, err := c.better(c.is); err != nil || got != c.want {
			t.Errorf("%q becomes %q (%v), wanted %q", c.is, got, err, c.want)
		}
	}
	for n, want := range map[int]string{1: "1", 4: "f", 32: "ffffffff", 33: "1,ffffffff", 70: "3f,ffffffff,ffffffff"} {
		if got := allCPUs(n); got != want {
			t.Errorf("%d CPUs: %s, wanted %s", n, got, want)
		}
	}
	if _, err := atLeast(1)("1 2"); err == nil {
		t.Error("a value of another shape is taken")
	}
}
