package http1

import (
	"io"
	"math"
	"strconv"

	"github.com/hanzoai/pqgw/exchange"
)

// chunkState is where in a chunked body the reader stands (RFC 9112, section 7.1).
type chunkState uint8

const (
	chunkSize     chunkState = iota // at the first digit of a size
	chunkDigits                     // behind a digit
	chunkExt                        // in an extension, which is ignored
	chunkSizeLF                     // at the LF behind a size
	chunkData                       // in the data
	chunkDataCR                     // at the CR behind the data
	chunkDataLF                     // at the LF behind that
	chunkTrailers                   // in the trailer section
	chunkDone
)

// maxChunkExt bounds what extensions one body may hold: they are ignored, so
// they are nothing but work (CVE-2023-39326).
const maxChunkExt = 4096

// chunks is the decoder of one chunked body, a serial.Framer. It is fed bytes as
// they come.
type chunks struct {
	limits  *exchange.Limits // on the trailer section
	state   chunkState
	size    int64 // of the chunk begun last
	digits  int
	ext     int
	trailer []byte // the trailer section so far
	scanned int
}

// reset makes ready for another body.
func (c *chunks) reset(limits *exchange.Limits) {
	*c = chunks{limits: limits, trailer: c.trailer[:0]}
}

// Frame implements serial.Framer.
func (c *chunks) Frame(b []byte, trailers *exchange.Head) (used int, data int64, err error) {
	if c.state == chunkData {
		c.state = chunkDataCR
	}
	used, r := c.framing(b)
	if r == nil && c.state == chunkDone {
		if r = c.fields(trailers); r == nil {
			return used, 0, io.EOF
		}
	}
	switch {
	case r != nil:
		return used, 0, r
	case c.state == chunkData:
		return used, c.size, nil
	}
	return used, 0, nil
}

// Ahead implements serial.Framer.
func (c *chunks) Ahead(b []byte) int { return len(b) }

// fields makes the trailers' head of the section, once all of it is there.
func (c *chunks) fields(h *exchange.Head) *exchange.Refusal {
	h.Reset(c.trailer)
	if len(c.trailer) <= 2 {
		return nil
	}
	if r := parseFields(c.trailer, 0, h, c.limits.Fields); r != nil {
		return r
	}
	return exchange.CheckTrailers(h, c.limits)
}

// framing consumes b until data begins, the body ends, or b does.
func (c *chunks) framing(b []byte) (n int, r *exchange.Refusal) {
	for n < len(b) && c.state != chunkData && c.state != chunkDone {
		if c.state == chunkTrailers {
			used, r := c.trailers(b[n:], c.limits.HeadBytes)
			return n + used, r
		}
		if r := c.step(b[n]); r != nil {
			return n, r
		}
		n++
	}
	return n, nil
}

// step takes one byte of framing.
func (c *chunks) step(b byte) *exchange.Refusal {
	switch c.state {
	case chunkSize:
		c.size, c.digits = 0, 0
		return c.digit(b)
	case chunkDigits:
		switch b {
		case '\r':
			c.state = chunkSizeLF
		case ';':
			c.state = chunkExt
		default:
			return c.digit(b)
		}
	case chunkExt:
		return c.extension(b)
	case chunkSizeLF:
		if b != '\n' {
			return exchange.RefuseChunk
		}
		if c.state = chunkData; c.size == 0 {
			c.state = chunkTrailers
		}
	case chunkDataCR:
		if b != '\r' {
			return exchange.RefuseChunk
		}
		c.state = chunkDataLF
	case chunkDataLF:
		if b != '\n' {
			return exchange.RefuseChunk
		}
		c.state = chunkSize
	}
	return nil
}

func (c *chunks) digit(b byte) *exchange.Refusal {
	v := int64(-1)
	switch {
	case '0' <= b && b <= '9':
		v = int64(b - '0')
	case 'a' <= b && b <= 'f':
		v = int64(b-'a') + 10
	case 'A' <= b && b <= 'F':
		v = int64(b-'A') + 10
	}
	if c.digits++; v < 0 || c.digits > 15 {
		return exchange.RefuseChunk
	}
	c.size = c.size<<4 | v
	c.state = chunkDigits
	return nil
}

// extension skips to the line's end. A LF, or any control character, hides a
// second reading of where the line ends.
func (c *chunks) extension(b byte) *exchange.Refusal {
	if b == '\r' {
		c.state = chunkSizeLF
		return nil
	}
	if c.ext++; c.ext > maxChunkExt || b < ' ' && b != '\t' || b == 0x7f {
		return exchange.RefuseChunk
	}
	return nil
}

// trailers gathers the trailer section until its empty line.
func (c *chunks) trailers(b []byte, limit int) (n int, r *exchange.Refusal) {
	had := len(c.trailer)
	room := limit + 2 - had
	if room <= 0 {
		return 0, exchange.RefuseHeadSize
	}
	take := min(len(b), room)
	c.trailer = append(c.trailer, b[:take]...)
	end, next, r := scanHead(c.trailer, c.scanned)
	if r != nil {
		return 0, r
	}
	if c.scanned = next; end == 0 {
		if take < len(b) {
			return 0, exchange.RefuseHeadSize
		}
		return take, nil
	}
	c.trailer = c.trailer[:end]
	c.state = chunkDone
	return end - had, nil
}

// chunking writes a body in chunks, a serial.Framing.
type chunking struct{}

// MostPiece implements serial.Framing: any number.
func (chunking) MostPiece() int { return math.MaxInt }

// AppendFrame implements serial.Framing.
func (chunking) AppendFrame(out []byte, n int) []byte {
	return append(strconv.AppendInt(out, int64(n), 16), "\r\n"...)
}

// AppendEnd implements serial.Framing.
func (chunking) AppendEnd(out []byte, n int, last bool, trailers *exchange.Head) ([]byte, error) {
	if n > 0 {
		out = append(out, "\r\n"...)
	}
	if !last {
		return out, nil
	}
	out = append(out, "0\r\n"...)
	if trailers != nil {
		out = appendFields(out, trailers)
	}
	return append(out, "\r\n"...), nil
}
