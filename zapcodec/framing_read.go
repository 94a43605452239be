package zapcodec

import (
	"bufio"
	"errors"
	"io"
	"slices"
)

// firstStep is how much buffer a frame gets before any byte of it has been
// read into one; after that it doubles as bytes arrive, so that a peer that
// announces much and sends little costs little.
const firstStep = 4 << 10

// Read reads the next frame from r into buf, which is grown when it is too
// small; pass the Bytes of the frame before to use its memory again. Limit is
// the most bytes of a message that are taken (DefaultLimit when 0); it is
// checked before anything is allocated. Read returns io.EOF when the stream
// ends between frames and io.ErrUnexpectedEOF when it ends inside one.
func (f Framing) Read(r *bufio.Reader, buf []byte, limit int) (Frame, error) {
	tag, size, err := f.readPrefix(r, limit)
	if err != nil {
		return Frame{}, err
	}
	buf = buf[:0]
	for len(buf) < size {
		if cap(buf) < size {
			step := min(max(firstStep, len(buf)), size-len(buf))
			buf = slices.Grow(buf, step)
		}
		from := len(buf)
		buf = buf[:min(size, cap(buf))]
		if _, err := io.ReadFull(r, buf[from:]); err != nil {
			return Frame{}, insideFrame(err)
		}
	}
	return Frame{Tag: tag, Bytes: buf}, nil
}

// readPrefix reads length and tag, and waits for the first bytes of the
// message without taking them, so that nothing is allocated for a silent peer.
func (f Framing) readPrefix(r *bufio.Reader, limit int) (tag byte, size int, err error) {
	b, err := r.Peek(prefixLen)
	if err != nil {
		if len(b) != 0 {
			err = insideFrame(err)
		}
		return 0, 0, err
	}
	if size, err = f.size(b, limit); err != nil {
		return 0, 0, err
	}
	if b, err = r.Peek(f.PrefixLen()); err != nil {
		return 0, 0, insideFrame(err)
	}
	if f.PrefixLen() > prefixLen {
		tag = b[prefixLen]
	}
	if err = f.checkTag(tag, size); err != nil {
		return 0, 0, err
	}
	if _, err = r.Discard(len(b)); err != nil {
		return 0, 0, insideFrame(err)
	}
	return tag, size, f.peekMessage(r, tag, size)
}

// peekMessage waits for a message's header and checks it, or for one byte of
// what is no message.
func (f Framing) peekMessage(r *bufio.Reader, tag byte, size int) error {
	if !f.carriesMessage(tag) {
		_, err := r.Peek(min(size, 1))
		return insideFrame(err)
	}
	header, err := r.Peek(HeaderLen)
	if err != nil {
		return insideFrame(err)
	}
	return checkAnnounced(header, size)
}

// insideFrame turns the end of a stream inside a frame into what it is.
func insideFrame(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
