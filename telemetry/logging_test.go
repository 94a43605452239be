package telemetry

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"testing"
)

func TestTheLogIsJSONWhereItIsNoTerminal(t *testing.T) {
	for level, want := range map[string]int{"debug": 4, "": 3, "info": 3, "WARN": 2, "error": 1} {
		var out bytes.Buffer
		l, err := NewLogger(&out, level, "auto")
		if err != nil {
			t.Fatal(err)
		}
		l.Debug("d")
		l.Info("i")
		l.Warn("w")
		l.Error("e")
		n := 0
		for line := range strings.Lines(out.String()) {
			if !json.Valid([]byte(line)) {
				t.Errorf("not JSON: %s", line)
			}
			n++
		}
		if n != want {
			t.Errorf("level %q: %d lines, want %d", level, n, want)
		}
	}
}

func TestAnUnknownLevelIsAnError(t *testing.T) {
	if _, err := NewLogger(&bytes.Buffer{}, "loud", ""); err == nil || !strings.Contains(err.Error(), "debug, info, warn, error") {
		t.Errorf("error %v", err)
	}
}

func TestTheFormatThatIsAskedForIsWritten(t *testing.T) {
	for format, want := range map[string]bool{"text": false, "json": true, "auto": true, "": true} {
		var out bytes.Buffer
		l, err := NewLogger(&out, "", format)
		if err != nil {
			t.Fatal(err)
		}
		l.Info("i")
		if got := json.Valid(out.Bytes()); got != want {
			t.Errorf("format %q: %s", format, out.Bytes())
		}
	}
	if _, err := NewLogger(&bytes.Buffer{}, "", "xml"); err == nil {
		t.Error("an unknown format passes")
	}
}

func TestLevelAndFormatChangeWhileTheLogIsUsed(t *testing.T) {
	var out bytes.Buffer
	l, err := NewLogger(&out, "warn", "json")
	if err != nil {
		t.Fatal(err)
	}
	derived := l.With("a", 1).WithGroup("g").With("b", 2)
	derived.Info("unseen")
	if err := l.Set("debug", "text"); err != nil {
		t.Fatal(err)
	}
	derived.Debug("seen", "c", 3)
	if got := out.String(); strings.Contains(got, "unseen") || !strings.HasSuffix(got, "msg=seen a=1 g.b=2 g.c=3\n") {
		t.Errorf("the log holds %q", got)
	}
	if err := l.Set("loud", "text"); err == nil || !l.Enabled(t.Context(), slog.LevelDebug) {
		t.Errorf("error %v; an unknown level must be one, and change nothing", err)
	}
}

func TestTerminals(t *testing.T) {
	device, err := os.Open(os.DevNull) // a character device, as terminals are
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if !isTerminal(device) || isTerminal(file) || isTerminal(&bytes.Buffer{}) {
		t.Error("told apart wrongly")
	}
}
