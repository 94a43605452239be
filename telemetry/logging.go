package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
)

// Logger is the process's own log, whose level and format may change while it is used.
type Logger struct {
	*slog.Logger
	w       io.Writer
	current atomic.Pointer[slog.Handler]
}

// NewLogger makes the process's own log. Level is "debug", "info", "warn" or
// "error"; empty is "info". Format is "text", "json", one object a line, or
// "auto", as is empty: text when w is a terminal, JSON otherwise.
func NewLogger(w io.Writer, level, format string) (*Logger, error) {
	l := &Logger{w: w}
	if err := l.Set(level, format); err != nil {
		return nil, err
	}
	l.Logger = slog.New(&switched{log: l})
	return l, nil
}

// Set puts another level and format in force, for loggers that were derived from this
// one as well. On an error nothing changes.
func (l *Logger) Set(level, format string) error {
	h, err := newHandler(l.w, level, format)
	if err == nil {
		l.current.Store(&h)
	}
	return err
}

func newHandler(w io.Writer, level, format string) (slog.Handler, error) {
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
		return slog.NewTextHandler(w, options), nil
	}
	return slog.NewJSONHandler(w, options), nil
}

// switched is a handler that passes on to the one in force, with the attributes and
// groups that were added to it since.
type switched struct {
	log   *Logger
	added []func(slog.Handler) slog.Handler
}

func (s *switched) Enabled(ctx context.Context, level slog.Level) bool {
	return (*s.log.current.Load()).Enabled(ctx, level)
}

func (s *switched) Handle(ctx context.Context, r slog.Record) error { //nolint:gocritic // slog's signature
	h := *s.log.current.Load()
	for _, add := range s.added {
		h = add(h)
	}
	return h.Handle(ctx, r)
}

func (s *switched) WithAttrs(attrs []slog.Attr) slog.Handler {
	return s.with(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

func (s *switched) WithGroup(name string) slog.Handler {
	return s.with(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}

func (s *switched) with(add func(slog.Handler) slog.Handler) slog.Handler {
	return &switched{log: s.log, added: append(s.added[:len(s.added):len(s.added)], add)}
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
