package http3

import (
	"errors"

	"golang.org/x/net/http2/hpack"

	"github.com/hanzoai/pqgw/transports/section"
)

// Errors of header compression: QPACK_DECOMPRESSION_FAILED, which ends the
// connection.
var (
	errIndex   = errors.New("field section refers to no entry")
	errDynamic = errors.New("field section refers to the dynamic table, which has no size")
)

// decoder reads field sections (RFC 9204, section 4.5) without an allocation
// per field: what next gives lies in the section, in the static table or in
// the decoder's scratch.
//
// quic-go/qpack makes strings; this one is fuzzed against it.
type decoder struct {
	p       []byte
	scratch scratch

	// name and value are the field that next has read, valid until the next call.
	name, value []byte
	// skip leaves values undecoded that need not be known.
	skip bool
}

// scratch takes decoded Huffman strings.
type scratch struct{ b []byte }

func (s *scratch) Write(p []byte) (int, error) {
	s.b = append(s.b, p...)
	return len(p), nil
}

// maxScratch is how much scratch a decoder keeps between sections.
const maxScratch = 4096

// begin starts a section and reads its prefix.
func (d *decoder) begin(section []byte) error {
	d.p, d.skip = section, false
	if cap(d.scratch.b) > maxScratch {
		d.scratch.b = nil
	}
	inserts, err := d.varint(8)
	if err != nil {
		return err
	}
	if inserts != 0 {
		return errDynamic
	}
	if len(d.p) > 0 && d.p[0]&0x80 != 0 {
		return errDynamic // a base below zero
	}
	_, err = d.varint(7) // the base, which means nothing without inserts
	return err
}

// next reads a field; false at the end of the section.
func (d *decoder) next() (bool, error) {
	d.scratch.b = d.scratch.b[:0]
	if len(d.p) == 0 {
		return false, nil
	}
	switch b := d.p[0]; {
	case b&0x80 != 0:
		return true, d.indexed(b)
	case b&0xc0 == 0x40:
		return true, d.named(b)
	case b&0xe0 == 0x20:
		return true, d.literal()
	}
	return false, errDynamic // an index counted from the base
}

func (d *decoder) indexed(b byte) error {
	i, err := d.varint(6)
	if err != nil {
		return err
	}
	if b&0x40 == 0 {
		return errDynamic
	}
	if i >= staticEntries {
		return errIndex
	}
	d.name, d.value = staticTable[i].name, staticTable[i].value
	return nil
}

func (d *decoder) named(b byte) error {
	i, err := d.varint(4)
	if err != nil {
		return err
	}
	if b&0x10 == 0 {
		return errDynamic
	}
	if i >= staticEntries {
		return errIndex
	}
	d.name = staticTable[i].name
	d.value, err = d.text(7)
	return err
}

func (d *decoder) literal() (err error) {
	if d.name, err = d.text(3); err != nil {
		return err
	}
	d.value, err = d.text(7)
	return err
}

// text reads a string whose length has a prefix of that many bits, below the
// bit that says whether it is Huffman code.
func (d *decoder) text(prefix uint) ([]byte, error) {
	if len(d.p) == 0 {
		return nil, section.ErrEnd
	}
	huffman := d.p[0]&(1<<prefix) != 0
	n, err := d.varint(prefix)
	if err != nil {
		return nil, err
	}
	if n > uint64(len(d.p)) {
		return nil, section.ErrEnd
	}
	raw := d.p[:n:n]
	d.p = d.p[n:]
	if !huffman || d.skip {
		return raw, nil
	}
	from := len(d.scratch.b)
	if _, err := hpack.HuffmanDecode(&d.scratch, raw); err != nil {
		return nil, err
	}
	return d.scratch.b[from:len(d.scratch.b):len(d.scratch.b)], nil
}

// varint reads an integer with a prefix of that many bits.
func (d *decoder) varint(prefix uint) (n uint64, err error) {
	n, d.p, err = section.Integer(d.p, prefix)
	return n, err
}
