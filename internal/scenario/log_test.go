package scenario

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// The promise: the gateway's own log is written as log.format says, and a reload changes
// its format and level.

func TestOwnLogIsWrittenAsConfigured(t *testing.T) {
	for format, want := range map[string]string{"text": "time=", "json": `{"time":`, "auto": `{"time":`} {
		g := Run(t, fmt.Sprintf("version: 1\nlog: {format: %s}\nlisteners: [{name: a, address: %q, protocols: [h1]}]\nroutes: [{to: trace}]", format, FreeAddr(t)))
		g.Stop(t)
		if got := g.Stderr.String(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: the log begins with %q, want %q", format, got, want)
		}
	}
}

func TestAReloadChangesLevelAndFormatOfTheOwnLog(t *testing.T) {
	addr := FreeAddr(t)
	config := func(log string) string {
		return fmt.Sprintf("version: 1\nlog: %s\nlisteners: [{name: a, address: %q, protocols: [h1]}]\nroutes: [{to: trace}]", log, addr)
	}
	g := Run(t, config("{level: error, format: json}"))
	reload := func(log string) {
		t.Helper()
		g.WriteConfig(t, config(log))
		if status, body := g.Admin(t, http.MethodPost, "/reload"); status != http.StatusOK {
			t.Fatalf("POST /reload: %d %s", status, body)
		}
	}
	reload("{level: info, format: text}")
	g.Stderr.Await(t, "a line of text", func(line string) bool {
		return strings.HasPrefix(line, "time=") && strings.Contains(line, "msg=listening")
	})
	reload("{level: error, format: json}")
	g.Stop(t)
	lines := g.Stderr.All()
	if last := lines[len(lines)-1]; !strings.Contains(last, "msg=listening") {
		t.Errorf("at level error the drain left the line %q", last)
	}
}
