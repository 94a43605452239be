package scenario

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/hanzoai/pqgw/internal/peers"
)

// Node runs a script of testdata with the node of the peers. The script finds
// the packages through the variable PQGW_NODE_MODULES.
func Node(t testing.TB, script string, args ...string) *Process {
	t.Helper()
	cmd := exec.Command(peers.Node(t), append([]string{filepath.Join("testdata", script)}, args...)...)
	cmd.Env = append(os.Environ(), "PQGW_NODE_MODULES="+peers.NodeModules(t))
	return StartProcess(t, cmd)
}

// NodeServer runs a script that prints {"port":N} once it listens on
// 127.0.0.1, and gives its address.
func NodeServer(t testing.TB, script string, args ...string) (p *Process, addr string) {
	t.Helper()
	p = Node(t, script, args...)
	var listening struct{ Port int }
	p.Stdout.Await(t, "the port of "+script, func(line string) bool {
		return json.Unmarshal([]byte(line), &listening) == nil && listening.Port != 0
	})
	return p, net.JoinHostPort("127.0.0.1", strconv.Itoa(listening.Port))
}

// NodeResult runs a script that prints one JSON object on its last line, and
// decodes that into result. The script must exit 0.
func NodeResult(t testing.TB, result any, script string, args ...string) {
	t.Helper()
	p := Node(t, script, args...)
	if code := p.ExitCode(t); code != 0 {
		t.Fatalf("%s exited with %d:\n%s", script, code, p.Stderr.String())
	}
	lines := p.Stdout.All()
	if len(lines) == 0 {
		t.Fatalf("%s printed nothing", script)
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), result); err != nil {
		t.Fatalf("%s printed no JSON: %v\n%s", script, err, p.Stdout.String())
	}
}
