package kms

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync"
)

const redacted = "[secret]"

// Secret holds bytes that must not be printed. They lie outside the Go heap,
// in memory that is kept from swap (where RLIMIT_MEMLOCK allows) and from core
// dumps, and are zeroed by Close. However it is formatted, marshalled or
// logged it shows as "[secret]". The zero value is an empty, closed Secret.
// It is safe for concurrent use.
type Secret struct {
	mu      sync.RWMutex
	b       []byte
	cleanup runtime.Cleanup
}

// NewSecret moves b into a Secret: the bytes are copied and b is zeroed.
func NewSecret(b []byte) *Secret {
	s := &Secret{b: protected.alloc(len(b))}
	copy(s.b, b)
	clear(b)
	s.cleanup = runtime.AddCleanup(s, protected.release, s.b)
	return s
}

// Use calls f with the bytes, which f must neither keep nor change. It returns
// what f returns, or ErrClosed.
func (s *Secret) Use(f func([]byte) error) error {
	if s == nil {
		return ErrClosed
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.b == nil {
		return ErrClosed
	}
	return f(s.b)
}

// Reveal returns a copy on the ordinary heap, for callers that cannot do
// without; nil after Close. The caller should clear it.
func (s *Secret) Reveal() []byte {
	var out []byte
	_ = s.Use(func(b []byte) error {
		out = append(make([]byte, 0, len(b)), b...)
		return nil
	})
	return out
}

// Len is the number of bytes; 0 after Close.
func (s *Secret) Len() int {
	n := 0
	_ = s.Use(func(b []byte) error { n = len(b); return nil })
	return n
}

// Equal compares two open secrets in constant time.
func (s *Secret) Equal(other *Secret) bool {
	same := false
	_ = s.Use(func(a []byte) error {
		return other.Use(func(b []byte) error {
			same = subtle.ConstantTimeCompare(a, b) == 1
			return nil
		})
	})
	return same
}

// Close zeroes the bytes and gives their memory back. It may be called again.
func (s *Secret) Close() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.b != nil {
		s.cleanup.Stop()
		protected.release(s.b)
		s.b = nil
	}
	return nil
}

// String implements fmt.Stringer without the bytes.
func (s *Secret) String() string { return redacted }

// GoString implements fmt.GoStringer without the bytes.
func (s *Secret) GoString() string { return redacted }

// Format implements fmt.Formatter, so that no verb shows the bytes.
func (s *Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalJSON implements json.Marshaler without the bytes.
func (s *Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalText implements encoding.TextMarshaler without the bytes.
func (s *Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalBinary implements encoding.BinaryMarshaler, so that gob shows
// nothing either.
func (s *Secret) MarshalBinary() ([]byte, error) { return []byte(redacted), nil }

// LogValue implements slog.LogValuer without the bytes.
func (s *Secret) LogValue() slog.Value { return slog.StringValue(redacted) }
