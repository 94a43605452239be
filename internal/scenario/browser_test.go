package scenario

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/hanzoai/pqgw/internal/peers"
)

// The promise: a person opens the trace page in a browser, over HTTP/2, and
// the page says that the connection is post-quantum.

func TestBrowserSeesThatItIsPostQuantum(t *testing.T) {
	f := NewFront(t, FrontOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), 4*Patience)
	defer cancel()
	args := append(peers.ChromiumFlags(t.TempDir()),
		"--ignore-certificate-errors-spki-list="+f.Leaf.SPKI, "--dump-dom", f.URL+"/")
	out, err := exec.CommandContext(ctx, peers.Chromium(t), args...).Output()
	if err != nil {
		t.Fatalf("chromium: %v", err)
	}
	page := strings.ToLower(string(out))
	for _, want := range []string{"<html", "post-quantum", "x25519mlkem768", "h2"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q:\n%s", want, out)
		}
	}
	if strings.Contains(page, "not post-quantum") {
		t.Errorf("the page calls Chromium's connection not post-quantum:\n%s", out)
	}
	entry := f.AwaitAccess(t, "the page", func(a Access) bool { return a.Path == "/" })
	if entry.Protocol != "h2" || entry.TLSGroup != "X25519MLKEM768" || !entry.TLSPQ {
		t.Errorf("the access log says %+v, want h2 over X25519MLKEM768", entry)
	}
}
