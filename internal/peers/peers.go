// Package peers finds the real programs that tests talk to: node with OpenSSL
// 3.5, Chromium, curl, h2spec and others. `make peers` installs them into a
// cache folder outside the checkout.
//
// A test that asks for a peer which is not there skips, naming the peer and
// how to get it; with PQGW_REQUIRE_PEERS=1, as in CI, it fails instead.
package peers

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hanzoai/pqgw/internal/peers/folder"
)

// Names of the environment variables that steer this package.
const (
	// EnvDir names the cache folder; unset, it is pqgw-peers in the user's
	// cache folder.
	EnvDir = folder.Env
	// EnvRequire set to "1" turns a missing peer into a failure.
	EnvRequire = "PQGW_REQUIRE_PEERS"
)

// Dir is the cache folder that scripts/peers.sh installs into, whether or not
// it exists.
func Dir() string { return folder.Dir() }

// Node is the path of a node 24, whose OpenSSL 3.5 has all three hybrid
// groups. NodeModules has the packages for its scripts.
func Node(t testing.TB) string {
	t.Helper()
	return cached(t, "node 24", "node", "bin", "node")
}

// NodeModules is the node_modules folder that holds the package ws.
func NodeModules(t testing.TB) string {
	t.Helper()
	return filepath.Dir(cached(t, "node's package ws", "node", "node_modules", "ws"))
}

// Chromium is the path of a Chromium or Chrome. Give it ChromiumFlags.
func Chromium(t testing.TB) string {
	t.Helper()
	return onPath(t, "chromium", "chromium-browser", "google-chrome")
}

// ChromiumFlags are the arguments of every headless run: userDir is a folder
// of its own for the profile. It runs without its sandbox, which containers
// and root do not allow.
func ChromiumFlags(userDir string) []string {
	return []string{
		"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-background-networking", "--disable-component-update",
		"--user-data-dir=" + userDir,
	}
}

// Curl is the path of the system's curl.
func Curl(t testing.TB) string {
	t.Helper()
	return onPath(t, "curl")
}

// Strace is the path of strace.
func Strace(t testing.TB) string {
	t.Helper()
	return onPath(t, "strace")
}

// H2spec is the path of h2spec, the conformance test of HTTP/2 servers.
func H2spec(t testing.TB) string {
	t.Helper()
	return cached(t, "h2spec", "bin", "h2spec")
}

// GRPCInterop gives the paths of grpc-go's interoperability client and server.
func GRPCInterop(t testing.TB) (client, server string) {
	t.Helper()
	return cached(t, "the grpc-go interop client", "bin", "client"), cached(t, "the grpc-go interop server", "bin", "server")
}

// GRPCurl is the path of grpcurl.
func GRPCurl(t testing.TB) string {
	t.Helper()
	return cached(t, "grpcurl", "bin", "grpcurl")
}

// Pebble is the path of Pebble, the ACME server for tests.
func Pebble(t testing.TB) string {
	t.Helper()
	return cached(t, "pebble", "bin", "pebble")
}

// SoftHSM is SoftHSM's PKCS#11 module, and the tool that makes its tokens. Both
// read the file that SOFTHSM2_CONF names.
func SoftHSM(t testing.TB) (module, util string) {
	t.Helper()
	util = onPath(t, "softhsm2-util")
	for _, pattern := range []string{"/usr/lib/softhsm", "/usr/lib/*/softhsm", "/usr/lib64/softhsm", "/usr/local/lib/softhsm", "/opt/homebrew/lib/softhsm"} {
		if found, _ := filepath.Glob(filepath.Join(pattern, "libsofthsm2.so")); len(found) > 0 {
			return found[0], util
		}
	}
	miss(t, "softhsm2", "its module libsofthsm2.so is not where systems put it")
	return "", ""
}

// P11Kit is p11-kit, whose server lends a PKCS#11 module to other processes, and the
// module that they reach it by.
func P11Kit(t testing.TB) (program, client string) {
	t.Helper()
	program = onPath(t, "p11-kit")
	for _, pattern := range []string{"/usr/lib/*/pkcs11", "/usr/lib64/pkcs11", "/usr/lib/pkcs11"} {
		if found, _ := filepath.Glob(filepath.Join(pattern, "p11-kit-client.so")); len(found) > 0 {
			return program, found[0]
		}
	}
	miss(t, "p11-kit", "its module p11-kit-client.so is not where systems put it")
	return "", ""
}

// cached is the path of something below Dir.
func cached(t testing.TB, name string, parts ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{Dir()}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		miss(t, name, err.Error())
	}
	return path
}

// onPath is the first of names that the PATH has.
func onPath(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	miss(t, names[0], "it is not on the PATH")
	return ""
}

// miss ends the test: skipped, or failed where peers are required.
func miss(t testing.TB, name, why string) {
	t.Helper()
	end := t.Skipf
	if os.Getenv(EnvRequire) == "1" {
		end = t.Fatalf
	}
	end("this test needs %s: %s; get it by `make peers`", name, why)
}
