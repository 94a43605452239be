package scenario

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hanzoai/pqgw/internal/peers"
)

// The promise: curl and Chromium, as people have them, get and send the same over
// HTTP/3 as over the other protocols, post-quantum, and are told that it is there.

// http3Peer runs trixie's curl, which speaks HTTP/3 and nothing else here.
type http3Peer struct {
	x               *peers.Trixie
	outside, inside string // a folder that both see
}

func newHTTP3Peer(t *testing.T, f *Front) *http3Peer {
	t.Helper()
	p := &http3Peer{x: peers.NewTrixie(t)}
	p.outside, p.inside = p.x.TempDir(t)
	pem, err := os.ReadFile(f.CA.File)
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, "ca.pem", pem)
	return p
}

func (p *http3Peer) write(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.outside, name), b, 0o644); err != nil { //nolint:gosec // curl may run as another
		t.Fatal(err)
	}
}

// curl runs it, from stdin, and gives what it printed.
func (p *http3Peer) curl(t *testing.T, stdin []byte, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	args = append([]string{"-sS", "--fail-with-body", "--http3-only", "--cacert", p.inside + "/ca.pem"}, args...)
	cmd := p.x.Command(ctx, "curl", args...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		text := ""
		if errors.As(err, &exit) {
			text = string(exit.Stderr)
		}
		t.Fatalf("curl %v: %v\n%s%s", args, err, out, text)
	}
	return out
}

func TestCurlDownloadsOverHTTP3(t *testing.T) {
	body := make([]byte, 8<<20)
	_, _ = rand.Read(body)
	origin := NewOrigin(t, false, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
	f := NewFront(t, FrontOptions{H3: true, PQ: "require", Routes: To(origin.URL)})
	p := newHTTP3Peer(t, f)
	if got := p.curl(t, nil, f.URL+"/down"); !bytes.Equal(got, body) {
		t.Errorf("%d bytes arrived that differ from the %d that were sent", len(got), len(body))
	}
	entry := f.AwaitAccess(t, "the download", func(a Access) bool { return a.Path == "/down" })
	if entry.Protocol != "h3" || entry.TLSGroup != "X25519MLKEM768" || !entry.TLSPQ {
		t.Errorf("the access log says %+v, want h3 over X25519MLKEM768", entry)
	}
}

func TestCurlUploadsOverHTTP3(t *testing.T) {
	origin := NewOrigin(t, false, nil)
	f := NewFront(t, FrontOptions{H3: true, Routes: To(origin.URL)})
	p := newHTTP3Peer(t, f)
	body := make([]byte, 5<<20+17)
	_, _ = rand.Read(body)
	p.write(t, "upload", body)
	sum := sha256.Sum256(body)
	for name, args := range map[string][]string{
		"of known length":   {"-T", p.inside + "/upload"},
		"of unknown length": {"-T", "-"},
		"a form":            {"-X", "POST", "--data-binary", "@" + p.inside + "/upload"},
	} {
		t.Run(name, func(t *testing.T) {
			var seen Seen
			out := p.curl(t, body, append(args, f.URL)...)
			if err := json.Unmarshal(out, &seen); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if seen.SHA256 != hex.EncodeToString(sum[:]) || seen.Bytes != int64(len(body)) {
				t.Errorf("%d bytes arrived that differ from the %d that were sent", seen.Bytes, len(body))
			}
		})
	}
}

func TestCurlIsToldOfHTTP3(t *testing.T) {
	f := NewFront(t, FrontOptions{H3: true})
	_, port, _ := strings.Cut(f.Addr, ":")
	want := `alt-svc: h3=":` + port + `"; ma=86400`
	for name, way := range curlWays(f) {
		out := strings.ToLower(curl(t, f, append(way, "-D", "-", "-o", os.DevNull)...))
		if told := strings.Contains(out, want); told != strings.Contains(name, "tls") {
			t.Errorf("%s: told of HTTP/3: %v\n%s", name, told, out)
		}
	}
}

func TestBrowserSeesThatHTTP3IsPostQuantum(t *testing.T) {
	f := NewFront(t, FrontOptions{H3: true})
	ctx, cancel := context.WithTimeout(t.Context(), 4*Patience)
	defer cancel()
	args := append(peers.ChromiumFlags(t.TempDir()), "--enable-quic", "--origin-to-force-quic-on="+f.Addr,
		"--ignore-certificate-errors-spki-list="+f.Leaf.SPKI, "--dump-dom", f.URL+"/")
	out, err := exec.CommandContext(ctx, peers.Chromium(t), args...).Output()
	if err != nil {
		t.Fatalf("chromium: %v", err)
	}
	page := strings.ToLower(string(out))
	for _, want := range []string{"<html", "post-quantum", "x25519mlkem768", "h3"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q:\n%s", want, out)
		}
	}
	entry := f.AwaitAccess(t, "the page", func(a Access) bool { return a.Path == "/" })
	if entry.Protocol != "h3" || entry.TLSGroup != "X25519MLKEM768" || !entry.TLSPQ {
		t.Errorf("the access log says %+v, want h3 over X25519MLKEM768", entry)
	}
}
