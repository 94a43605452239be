package scenario

import (
	"fmt"
	"strings"
	"testing"
)

// The promise: the gateway's own log is written as log.format says.

func TestOwnLogIsWrittenAsConfigured(t *testing.T) {
	for format, want := range map[string]string{"text": "time=", "json": `{"time":`, "auto": `{"time":`} {
		g := Run(t, fmt.Sprintf("version: 1\nlog: {format: %s}\nlisteners: [{name: a, address: %q, protocols: [h1]}]\nroutes: [{to: trace}]", format, FreeAddr(t)))
		g.Stop(t)
		if got := g.Stderr.String(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: the log begins with %q, want %q", format, got, want)
		}
	}
}
