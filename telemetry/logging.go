package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
)

// NewLogger makes the process's own log. Level is "debug", "info", "warn" or
// "error"; empty is "info". Format is "text", "json", one object a line, or
// "auto", as is empty: text when w is a terminal, JSON otherwise.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	switch strings.ToLower(level) {
	case "debug":
		l = slog.LevelDebug
	case "info", "":
		l = slog.LevelInfo
	case "warn":
		l = slog.LevelWarn
	case "error":
		l = slog.LevelError
	default:
		return nil, fmt.Errorf("log level %q is not known; one of debug, info, warn, error", level)
	}
	options := &slog.HandlerOptions{Level: l}
	switch format {
	case "text", "json", "auto", "":
	default:
		return nil, fmt.Errorf("log format %q is not known; one of auto, text, json", format)
	}
	if format == "text" || format != "json" && isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, options)), nil
	}
	return slog.New(slog.NewJSONHandler(w, options)), nil
}

// isTerminal says whether w is a character device, which is a terminal where
// anybody reads it.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
