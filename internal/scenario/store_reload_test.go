package scenario

// Promise: a reload that names another store leaves no file of the one before open, once
// handshakes of before are over; neither does one that is refused. The master may come from
// the same environment variable, which is read once.

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// opened tells whether the process has a file below the folder open.
func opened(t *testing.T, pid int, dir string) bool {
	t.Helper()
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(fds) == 0 {
		t.Skip("this system does not show the open files of a process in /proc")
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, dir+"/") {
			return true
		}
	}
	return false
}

func TestAReloadLeavesNoStoreOpen(t *testing.T) {
	ca, first := NewCA(t), NewStore(t)
	leaves := [2]Leaf{ca.Leaf(t, "localhost"), ca.Leaf(t, "localhost")}
	stores := [3]*Store{first}
	for i := range 2 {
		stores[i+1] = &Store{Dir: filepath.Join(t.TempDir(), "store"), Master: first.Master}
		stores[i+1].KMS(t, "", "init")
	}
	for i, leaf := range leaves {
		stores[i].putLeaf(t, "edge", leaf)
	}
	master, err := os.ReadFile(first.Master)
	if err != nil {
		t.Fatal(err)
	}
	addr := FreeAddr(t)
	config := func(s *Store, entry string) string {
		return fmt.Sprintf(`version: 1
kms: {dir: %q, master: {env: PQGW_TEST_MASTER}}
tls: {public: {certificates: {kms: {store: %s}}}}
limits: {handshake_timeout: 1s}
drain: {timeout: 1s}
listeners: [{name: edge, address: %q, tls: public}]
routes: [{to: trace}]
`, s.Dir, entry, addr)
	}
	g := RunBy(t, Binary(t), []string{"PQGW_TEST_MASTER=" + string(master)}, config(stores[0], "edge"))
	serves := func(leaf Leaf) bool {
		state, err := visit(addr, &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"})
		return err == nil && state.PeerCertificates[0].SerialNumber.Cmp(leaf.Serial) == 0
	}
	if !serves(leaves[0]) || !opened(t, g.PID(), stores[0].Dir) {
		t.Fatal("the first store is not in use")
	}
	reload := func(s *Store, entry string) {
		g.WriteConfig(t, config(s, entry))
		g.Signal(t, syscall.SIGHUP)
	}
	reload(stores[1], "edge")
	Await(t, "the certificate of the second store", func() bool { return serves(leaves[1]) })
	Await(t, "the end of the first store", func() bool { return !opened(t, g.PID(), stores[0].Dir) })
	if !serves(leaves[1]) || !opened(t, g.PID(), stores[1].Dir) {
		t.Error("the second store went with the first")
	}

	reload(stores[2], "none")
	g.Stderr.AwaitText(t, "the new configuration was refused")
	Await(t, "the end of the store of a refused configuration", func() bool { return !opened(t, g.PID(), stores[2].Dir) })
	reload(stores[0], "edge")
	Await(t, "the first store again", func() bool { return serves(leaves[0]) })
}
