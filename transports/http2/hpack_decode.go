package http2

import (
	"errors"

	"github.com/hanzoai/pqgw/transports/section"
)

// Errors of header compression: COMPRESSION_ERROR, which ends the connection.
var (
	errIndex     = errors.New("field block refers to no entry")
	errTableSize = errors.New("field block sets a table size that is too large or comes too late")
)

// decoder reads field blocks (RFC 7541) without an allocation per field: what
// next gives lies in the block, in the tables or in the decoder's scratch.
//
// golang.org/x/net's decoder makes strings; this one is fuzzed against it.
type decoder struct {
	tab     dynamicTable
	allowed uint32 // the SETTINGS_HEADER_TABLE_SIZE that we announced

	p       []byte
	started bool   // a field has been read, so no size update may follow
	scratch []byte // takes decoded Huffman strings
	copied  []byte

	// name and value are the field that next has read, valid until the next call.
	// With skip set, values that need not be known are left out.
	name, value []byte
	skip        bool
}

// maxScratch is how much scratch a decoder keeps between blocks.
const maxScratch = 4096

// begin starts a block.
func (d *decoder) begin(block []byte) {
	d.p, d.started, d.skip = block, false, false
	if cap(d.scratch) > maxScratch {
		d.scratch = nil
	}
}

// next reads a field; false at the end of the block.
func (d *decoder) next() (bool, error) {
	d.scratch = d.scratch[:0]
	for len(d.p) > 0 {
		b := d.p[0]
		switch {
		case b&0x80 != 0:
			return true, d.indexed()
		case b&0xc0 == 0x40:
			return true, d.literal(6, true)
		case b&0xe0 == 0x20:
			if err := d.sizeUpdate(); err != nil {
				return false, err
			}
		default: // without indexing, or never indexed
			return true, d.literal(4, false)
		}
	}
	return false, nil
}

func (d *decoder) indexed() error {
	i, err := d.varint(7)
	if err != nil {
		return err
	}
	d.started = true
	d.name, d.value, err = d.at(i)
	return err
}

func (d *decoder) at(i uint64) (name, value []byte, err error) {
	switch {
	case i == 0:
	case i < uint64(len(staticTable)):
		return staticTable[i].name, staticTable[i].value, nil
	case i-uint64(len(staticTable)) < uint64(d.tab.len()):
		name, value = d.tab.at(int(i) - len(staticTable))
		return name, value, nil
	}
	return nil, nil, errIndex
}

func (d *decoder) literal(prefix uint, index bool) error {
	i, err := d.varint(prefix)
	if err != nil {
		return err
	}
	d.started = true
	want := index || !d.skip
	if i > 0 {
		if d.name, _, err = d.at(i); err != nil {
			return err
		}
	} else if d.name, err = d.text(want); err != nil {
		return err
	}
	if d.value, err = d.text(want); err != nil {
		return err
	}
	if index {
		if i >= uint64(len(staticTable)) {
			d.copied = append(d.copied[:0], d.name...)
			d.name = d.copied
		}
		d.tab.add(d.name, d.value)
	}
	return nil
}

// text reads a string; undecoded where nobody wants it.
func (d *decoder) text(want bool) ([]byte, error) {
	if len(d.p) == 0 {
		return nil, section.ErrEnd
	}
	huffman := d.p[0]&0x80 != 0
	n, err := d.varint(7)
	if err != nil {
		return nil, err
	}
	if n > uint64(len(d.p)) {
		return nil, section.ErrEnd
	}
	raw := d.p[:n:n]
	d.p = d.p[n:]
	if !huffman || !want {
		return raw, nil
	}
	from := len(d.scratch)
	if d.scratch, err = appendHuffman(d.scratch, raw); err != nil {
		return nil, err
	}
	return d.scratch[from:len(d.scratch):len(d.scratch)], nil
}

// sizeUpdate obeys a change of the table's size, which may come only before
// the first field of a block (RFC 7541, section 4.2).
func (d *decoder) sizeUpdate() error {
	n, err := d.varint(5)
	if err != nil {
		return err
	}
	if d.started || n > uint64(d.allowed) {
		return errTableSize
	}
	d.tab.setMax(uint32(n))
	return nil
}

// varint reads an integer with a prefix of that many bits.
func (d *decoder) varint(prefix uint) (n uint64, err error) {
	n, d.p, err = section.Integer(d.p, prefix)
	return n, err
}
