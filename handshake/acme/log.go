package acme

import (
	"context"
	"errors"
	"log/slog"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// bridge lets certmagic, which logs by zap, write to our log. What is news for
// certmagic is detail for a gateway: its steps come at debug, its warnings and
// errors as they are. What it calls debug is left out.
type bridge struct {
	to     *slog.Logger
	fields []zapcore.Field
}

func newZap(to *slog.Logger) *zap.Logger { return zap.New(&bridge{to: to}) }

// Enabled implements zapcore.Core.
func (b *bridge) Enabled(l zapcore.Level) bool {
	return l >= zapcore.InfoLevel && b.to.Enabled(context.Background(), levelOf(l))
}

func levelOf(l zapcore.Level) slog.Level {
	switch {
	case l >= zapcore.ErrorLevel:
		return slog.LevelError
	case l == zapcore.WarnLevel:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// With implements zapcore.Core.
func (b *bridge) With(fields []zapcore.Field) zapcore.Core {
	return &bridge{to: b.to, fields: append(b.fields[:len(b.fields):len(b.fields)], fields...)}
}

// Check implements zapcore.Core.
func (b *bridge) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if b.Enabled(e.Level) {
		return c.AddCore(e, b)
	}
	return c
}

// Write implements zapcore.Core.
func (b *bridge) Write(e zapcore.Entry, fields []zapcore.Field) error {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range append(b.fields[:len(b.fields):len(b.fields)], fields...) {
		// A certificate without a responder is nothing to tell of.
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType && errors.Is(err, certmagic.ErrNoOCSPServerSpecified) {
			return nil
		}
		f.AddTo(enc)
	}
	args := make([]any, 0, 2*len(enc.Fields)+2)
	for _, f := range sortedKeys(enc.Fields) {
		args = append(args, f, enc.Fields[f])
	}
	b.to.Log(context.Background(), levelOf(e.Level), "acme: "+e.Message, args...)
	return nil
}

// Sync implements zapcore.Core.
func (b *bridge) Sync() error { return nil }
