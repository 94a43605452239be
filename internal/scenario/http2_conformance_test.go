package scenario

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"testing"

	"github.com/hanzoai/pqgw/internal/peers"
)

// The promise: HTTP/2 as RFC 9113 and RFC 7541 have it: h2spec finds nothing,
// strict tests included, over TLS and in the clear, in front of an upstream and
// where the gateway answers itself.

var h2specSummary = regexp.MustCompile(`(?m)^(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed`)

func TestH2specFindsNothing(t *testing.T) {
	h2spec := peers.H2spec(t)
	ca := NewCA(t)
	leaf := ca.Leaf(t, "localhost")
	origin := NewOrigin(t, false, nil)
	secure, plain := FreeAddr(t), FreeAddr(t)
	// A listener that also speaks HTTP/1 takes a bad preface for a bad HTTP/1
	// request, and answers it as one.
	Run(t, fmt.Sprintf(`version: 1
tls: {public: {certificates: {files: [{cert: %q, key: %q}]}}}
listeners:
  - {name: secure, address: %q, protocols: [h1, h2], tls: public}
  - {name: plain, address: %q, protocols: [h2c]}
%s`, leaf.CertFile, leaf.KeyFile, secure, plain, To(origin.URL)))
	_, edge := Edge(t)
	for listener, args := range map[string][]string{
		"tls":        {"-p", Port(t, secure), "-t", "-k"},
		"clear":      {"-p", Port(t, plain)},
		"trace page": {"-p", Port(t, edge), "-t", "-k"},
	} {
		t.Run(listener, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 4*Patience)
			defer cancel()
			args := append([]string{"-h", "127.0.0.1", "-P", "/", "-o", "5", "--strict"}, args...)
			out, err := exec.CommandContext(ctx, h2spec, args...).CombinedOutput()
			got := h2specSummary.FindSubmatch(out)
			if err != nil || got == nil || string(got[4]) != "0" || string(got[3]) != "0" {
				t.Fatalf("h2spec: %v\n%s", err, out)
			}
			t.Logf("%s", got[0])
		})
	}
}
