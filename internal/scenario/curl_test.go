package scenario

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hanzoai/pqgw/internal/peers"
)

// The promise: curl, as people have it, gets what the origin gave and sends
// what the origin should get, over each protocol.

// curl runs curl with the front's CA and gives what it printed.
func curl(t *testing.T, f *Front, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	args = append([]string{"-sS", "--fail-with-body", "--cacert", f.CA.File}, args...)
	out, err := exec.CommandContext(ctx, peers.Curl(t), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("curl %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// curlWays are the protocols by which curl reaches a front.
func curlWays(f *Front) map[string][]string {
	return map[string][]string{
		"h1 tls":   {"--http1.1", f.URL},
		"h1 clear": {"--http1.1", f.PlainURL},
		"h2 tls":   {"--http2", f.URL},
		"h2 clear": {"--http2-prior-knowledge", f.PlainURL},
	}
}

func TestCurlDownloadsWhatTheOriginHas(t *testing.T) {
	const size = 8 << 20
	body := make([]byte, size)
	_, _ = rand.Read(body)
	origin := NewOrigin(t, false, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
	f := NewFront(t, FrontOptions{Routes: To(origin.URL)})
	want := sha256.Sum256(body)
	for name, way := range curlWays(f) {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "body")
			curl(t, f, append(way, "-o", file)...)
			got, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if sha256.Sum256(got) != want {
				t.Errorf("%d bytes arrived that differ from the %d that were sent", len(got), size)
			}
		})
	}
}

func TestCurlUploadsArriveWhole(t *testing.T) {
	origin := NewOrigin(t, false, nil)
	f := NewFront(t, FrontOptions{Routes: To(origin.URL)})
	body := make([]byte, 5<<20+17)
	_, _ = rand.Read(body)
	file := filepath.Join(t.TempDir(), "upload")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(body)
	for name, way := range curlWays(f) {
		for kind, args := range map[string][]string{
			"of known length": {"-T", file},
			"chunked":         {"-T", "-"},
			"form":            {"-X", "POST", "--data-binary", "@" + file}, // waits for 100 Continue
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), Patience)
				defer cancel()
				args := append(append([]string{"-sS", "--fail-with-body", "--cacert", f.CA.File}, way...), args...)
				cmd := exec.CommandContext(ctx, peers.Curl(t), args...)
				in, err := os.Open(file)
				if err != nil {
					t.Fatal(err)
				}
				defer in.Close()
				cmd.Stdin = in
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("%v: %v\n%s", args, err, out)
				}
				var seen Seen
				if err := json.Unmarshal(out, &seen); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				if seen.SHA256 != hex.EncodeToString(sum[:]) || seen.Bytes != int64(len(body)) {
					t.Errorf("%d bytes arrived that differ from the %d that were sent", seen.Bytes, len(body))
				}
			})
		}
	}
}

func TestCurlHeadHasTheLengthAndNoBody(t *testing.T) {
	origin := NewOrigin(t, false, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1234")
		w.WriteHeader(http.StatusOK)
	}))
	f := NewFront(t, FrontOptions{Routes: To(origin.URL)})
	for name, way := range curlWays(f) {
		t.Run(name, func(t *testing.T) {
			out := strings.ToLower(curl(t, f, append(way, "-I")...))
			if !strings.Contains(out, "content-length: 1234") {
				t.Errorf("the head lacks the origin's length:\n%s", out)
			}
		})
	}
}
