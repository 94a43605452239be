package exchange

import "io"

// Source is the reading end of a body. The transport that writes a message
// pulls from it, so a body crosses the gateway in the memory it was read into.
// One goroutine at a time reads a source; only Close may come from another.
type Source interface {
	// Length is the number of bytes still to come, or -1 when only the end will tell.
	Length() int64
	// Whole gives all that is still to come where it already lies in memory and
	// no trailers follow; false otherwise. It may be asked again: nothing is consumed.
	Whole() ([]byte, bool)
	// Next waits for bytes and gives them where they lie, valid until the next
	// call. The end is io.EOF, alone or with the last bytes. Any other error means that
	// the body is cut: what has come must not pass for the whole.
	Next() ([]byte, error)
	// Read is Next into the caller's memory, by the rules of io.Reader.
	Read(p []byte) (int, error)
	// Buffered is how many bytes Next or Read would give without waiting; a
	// writer flushes before it waits.
	Buffered() int
	// Trailers is the trailer section after io.EOF; nil or empty when there is none.
	Trailers() *Head
	// Close gives up the rest of the body, for a reason that may be nil after
	// io.EOF. It may be called while another goroutine waits in Next or Read,
	// which then return an error: so a request's body ends once the answer has
	// been sent early and nobody wants the rest.
	Close(reason error)
}

// Sink is the writing end of a body for handlers that push, as those in our own
// process do. Errors are those of the client's connection.
type Sink interface {
	io.Writer
	// Flush sends what has been written so far.
	Flush() error
	// Finish ends the body; trailers may be nil.
	Finish(trailers *Head) error
	// Reset cuts the body so that the client sees that it is not whole.
	Reset(reason error)
}

// Tunnel is a byte stream both ways, after an upgrade was agreed.
type Tunnel interface {
	io.ReadWriteCloser
	// CloseWrite ends our direction and leaves the other open.
	CloseWrite() error
}

// Bytes is a Source over memory.
type Bytes struct {
	data []byte
	off  int
}

// NewBytes gives a body that is whole already.
func NewBytes(b []byte) *Bytes { return &Bytes{data: b} }

// Reset lets the source start over with other bytes.
func (b *Bytes) Reset(data []byte) { b.data, b.off = data, 0 }

// Rewind lets the source start over.
func (b *Bytes) Rewind() { b.off = 0 }

// Length implements Source.
func (b *Bytes) Length() int64 { return int64(len(b.data) - b.off) }

// Whole implements Source.
func (b *Bytes) Whole() ([]byte, bool) { return b.data[b.off:], true }

// Next implements Source.
func (b *Bytes) Next() ([]byte, error) {
	p := b.data[b.off:]
	b.off = len(b.data)
	return p, io.EOF
}

// Read implements Source.
func (b *Bytes) Read(p []byte) (int, error) {
	n := copy(p, b.data[b.off:])
	b.off += n
	if b.off == len(b.data) && (n > 0 || len(p) > 0) {
		return n, io.EOF
	}
	return n, nil
}

// Buffered implements Source.
func (b *Bytes) Buffered() int { return len(b.data) - b.off }

// Trailers implements Source.
func (b *Bytes) Trailers() *Head { return nil }

// Close implements Source.
func (b *Bytes) Close(error) {}
