package stream

import (
	"crypto/tls"
	"sync"
)

// recordBytes is the most plaintext that one TLS record holds (RFC 8446, section 5.1).
const recordBytes = 16384

// recordPool holds scratch for joining pieces into one record.
var recordPool = sync.Pool{New: func() any {
	b := make([]byte, 0, recordBytes)
	return &b
}}

// Stream is a socket with TLS above it, or nothing.
type Stream struct {
	Sock *Socket
	TLS  *tls.Conn // nil in the clear
}

// Read reads plaintext; inside Step it gives ErrAgain instead of waiting.
func (s *Stream) Read(p []byte) (int, error) {
	if s.TLS != nil {
		return s.TLS.Read(p)
	}
	return s.Sock.Read(p)
}

// Quiet is Socket.Quiet, where TLS has not taken in more either than was read. It may read what
// it finds.
func (s *Stream) Quiet() bool {
	if !s.Sock.Quiet() {
		return false
	}
	if s.TLS == nil {
		return true
	}
	s.Sock.dry = true
	_, err := s.TLS.Read(make([]byte, 1))
	s.Sock.dry = false
	return err == ErrAgain //nolint:errorlint // an identity
}

// Write sends p; several records leave in one system call.
func (s *Stream) Write(p []byte) (int, error) {
	if s.TLS == nil {
		return s.Sock.write(p)
	}
	if len(p) <= recordBytes {
		return s.TLS.Write(p) // corked or not
	}
	s.Sock.Cork()
	n, err := s.TLS.Write(p)
	if e := s.Sock.Uncork(); err == nil {
		err = e
	}
	return n, err
}

// WriteLast is Write for what is followed by Close at once: on TLS it leaves
// together with the close_notify.
func (s *Stream) WriteLast(p []byte) error {
	if s.TLS != nil {
		s.Sock.Cork()
	}
	_, err := s.Write(p)
	return err
}

// Writev sends the pieces in order as if they were one. In the clear none is
// copied. On TLS the first record takes the beginning of b beside a, so that
// a head shares it with the body, and the rest is encrypted from where it lies.
func (s *Stream) Writev(a, b, c []byte) error {
	if s.TLS == nil {
		return s.Sock.Writev(a, b, c)
	}
	s.Sock.Cork()
	err := s.writeRecords(a, b, c)
	if e := s.Sock.Uncork(); err == nil {
		err = e
	}
	return err
}

func (s *Stream) writeRecords(a, b, c []byte) error {
	first := recordPool.Get().(*[]byte)
	defer func() {
		*first = (*first)[:0]
		recordPool.Put(first)
	}()
	take := max(0, min(len(b), recordBytes-len(a)))
	*first = append(append(*first, a...), b[:take]...)
	b = b[take:]
	if len(b) == 0 && len(*first)+len(c) <= recordBytes {
		*first, c = append(*first, c...), nil
	}
	for _, p := range [...][]byte{*first, b, c} {
		if len(p) == 0 {
			continue
		}
		if _, err := s.TLS.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// CloseWrite ends our direction: close_notify on TLS, then FIN.
func (s *Stream) CloseWrite() error {
	if s.TLS != nil {
		if err := s.TLS.CloseWrite(); err != nil {
			return err
		}
	}
	return s.Sock.CloseWrite()
}

// Close closes the socket, on TLS after an attempt to say so.
func (s *Stream) Close() error {
	if s.TLS == nil {
		return s.Sock.Close()
	}
	err := s.TLS.Close()
	_ = s.Sock.Uncork() // where TLS had failed before and said nothing
	return err
}
