package http3

import (
	"errors"

	"golang.org/x/net/http2/hpack"
)

// Errors of header compression: QPACK_DECOMPRESSION_FAILED, which ends the
// connection.
var (
	errSectionEnd = errors.New("field section ends within a field")
	errIndex      = errors.New("field section refers to no entry")
	errDynamic    = errors.New("field section refers to the dynamic table, which has no size")
	errVarint     = errors.New("field section holds an integer that is too long")
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
		return nil, errSectionEnd
	}
	huffman := d.p[0]&(1<<prefix) != 0
	n, err := d.varint(prefix)
	if err != nil {
		return nil, err
	}
	if n > uint64(len(d.p)) {
		return nil, errSectionEnd
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

// varint reads an integer with a prefix of that many bits (RFC 7541, section 5.1).
func (d *decoder) varint(prefix uint) (uint64, error) {
	if len(d.p) == 0 {
		return 0, errSectionEnd
	}
	mask := uint64(1)<<prefix - 1
	n := uint64(d.p[0]) & mask
	if n < mask {
		d.p = d.p[1:]
		return n, nil
	}
	for i, shift := 1, uint(0); i < len(d.p); i, shift = i+1, shift+7 {
		if shift >= 56 {
			return 0, errVarint
		}
		b := d.p[i]
		n += uint64(b&0x7f) << shift
		if b&0x80 == 0 {
			d.p = d.p[i+1:]
			return n, nil
		}
	}
	return 0, errSectionEnd
}
