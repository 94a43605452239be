package zapcodec

import (
	"encoding/binary"
	"iter"
	"strconv"
)

// Span is a place in a frame.
type Span struct {
	Off, Len uint32 // in bytes, from the frame's start
}

// Of returns the bytes of the frame at the span.
func (s Span) Of(frame []byte) []byte {
	end := uint64(s.Off) + uint64(s.Len)
	return frame[s.Off:end:end]
}

// Pair is a field to be written: a name and a value.
type Pair struct {
	Name, Value []byte
}

// maxNominations is how many Connection pairs, and nominationBytes how many
// bytes of their values, are followed up in one header block. Nobody honest
// sends any over ZAP; without a limit each name would be compared to each.
const (
	maxNominations  = 4
	nominationBytes = 256
)

// block is a header block that was checked.
type block struct {
	off, end  uint32 // of the first pair, and of the whole, in the frame
	count     uint32
	drops     bool // some pair is not to be passed on
	nominated uint8
	connect   [maxNominations]Span // values of Connection
}

// pairCheck is what parsing a block finds out besides whether it is sound.
type pairCheck struct {
	field   string // the block's name, for errors
	hosts   int    // pairs of Host; 1 to begin with where there may be none
	lengths int    // pairs of Content-Length
	length  []byte // the value of one
}

// parseTrailers checks the trailer fields at s.
func (b *block) parseTrailers(frame []byte, s Span) error {
	return b.parse(frame, s, &pairCheck{field: trailersField, hosts: 1})
}

// none makes b a block without pairs.
func (b *block) none(off uint32) {
	b.off, b.end, b.count, b.drops, b.nominated = off, off, 0, false, 0
}

// parse checks the header block at s, and leaves count pairs at off for Pairs to
// walk. Their lengths must fill the block exactly, names and values must be
// HTTP's. This is most of what parsing a head costs, so the checks are written
// out here, with no call on the way of ordinary fields.
//
// The last word of a text is the eight bytes up to its end; of a shorter text,
// what lies before it is shifted out.
func (b *block) parse(frame []byte, s Span, c *pairCheck) error {
	b.none(s.Off)
	if s.Len == 0 {
		return nil
	}
	end := uint64(s.Off) + uint64(s.Len)
	frame = frame[:end:end]
	if s.Len < 4 {
		return fail(errBlock, int(s.Off), c.field, strconv.Itoa(int(s.Len))+" bytes hold no count")
	}
	at := uint64(s.Off) + 4
	b.off, b.end, b.count = uint32(at), uint32(end), binary.LittleEndian.Uint32(frame[at-4:at])
	for left := b.count; left != 0; left-- {
		pair := at
		if end-pair < 8 {
			return b.lengthsError(frame, pair, left, c)
		}
		n := uint64(binary.LittleEndian.Uint32(frame[pair : pair+4]))
		value := pair + n + 8
		if value > end {
			return b.lengthsError(frame, pair, left, c)
		}
		m := uint64(binary.LittleEndian.Uint32(frame[value-4 : value]))
		at = value + m
		if at > end {
			return b.lengthsError(frame, pair, left, c)
		}
		before := -n * 8 & 63
		odd := oddToken(binary.LittleEndian.Uint64(frame[value-12:value-4])>>before) << before
		for i := pair + 12; i < value-4; i += 8 {
			odd |= oddToken(binary.LittleEndian.Uint64(frame[i-8 : i]))
		}
		before = -m * 8 & 63
		odd |= oddValue(binary.LittleEndian.Uint64(frame[at-8:at])>>before) << before
		for i := value + 8; i < at; i += 8 {
			odd |= oddValue(binary.LittleEndian.Uint64(frame[i-8 : i]))
		}
		odd &= highs
		switch {
		case n == 4:
			if isHost(binary.LittleEndian.Uint32(frame[pair+4 : pair+8])) {
				if c.hosts++; c.hosts > 1 {
					return hostError(int(value), c.field)
				}
			}
		case n < 20:
			odd |= uint64(specialNames[frame[pair+4]&31] >> n & 1)
		}
		if odd != 0 {
			if err := b.look(frame, pair, c); err != nil {
				return err
			}
		}
	}
	if at != end {
		return fail(errBlock, int(at), c.field, strconv.Itoa(int(end-at))+" bytes after the last of "+strconv.Itoa(int(b.count))+" pairs")
	}
	return nil
}

// look has an exact look at the pair at at, and does what its name asks for.
func (b *block) look(frame []byte, at uint64, c *pairCheck) error {
	name := Span{uint32(at) + 4, binary.LittleEndian.Uint32(frame[at : at+4])}
	off := at + 8 + uint64(name.Len)
	value := Span{uint32(off), binary.LittleEndian.Uint32(frame[off-4 : off])}
	if !tokenExact(name.Of(frame)) {
		return nameError(int(name.Off), c.field, name.Of(frame))
	}
	if !valueExact(value.Of(frame)) {
		return valueError(int(value.Off), c.field, name.Of(frame))
	}
	switch classify(name.Of(frame)) {
	case fieldPasses, fieldHost:
		return nil
	case fieldRefused:
		return transferEncodingError(int(value.Off), c.field)
	case fieldLength:
		v := value.Of(frame)
		c.lengths++
		if c.lengths > 1 && string(c.length) != string(v) {
			return fail(errLength, int(value.Off), c.field, "two values of Content-Length that differ")
		}
		c.length = v
	case fieldConnection:
		if err := b.nominate(value, c); err != nil {
			return err
		}
	}
	b.drops = true
	return nil
}

// nominate notes the value of a Connection pair.
func (b *block) nominate(at Span, c *pairCheck) error {
	total := at.Len
	for _, s := range b.connect[:b.nominated] {
		total += s.Len
	}
	if b.nominated == maxNominations || total > nominationBytes {
		return fail(errConnection, int(at.Off), c.field, "Connection names more fields than are followed up")
	}
	b.connect[b.nominated] = at
	b.nominated++
	return nil
}

// hopByHop reports whether some Connection pair of the block names the field
// (RFC 9110, section 7.6.1).
func (b *block) hopByHop(frame, name []byte) bool {
	for _, s := range b.connect[:b.nominated] {
		if listNames(s.Of(frame), name) {
			return true
		}
	}
	return false
}

// listNames reports whether a comma-separated list holds the token.
func listNames(list, token []byte) bool {
	for start := 0; start <= len(list); {
		end := start
		for end < len(list) && list[end] != ',' {
			end++
		}
		item := trimBlanks(list[start:end])
		if equalFold(token, item) {
			return true
		}
		start = end + 1
	}
	return false
}

func trimBlanks(s []byte) []byte {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for len(s) > 0 && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// Pairs walks the fields of a header block in their order:
//
//	p := view.Headers()
//	for p.Next() {
//		use(p.Name(), p.Value())
//	}
//
// Hop-by-hop fields, Content-Length and Trailer are left out. Names and values
// alias the frame.
type Pairs struct {
	frame []byte
	b     *block
	at    uint64 // end of the current pair
	left  uint32
	name  Span
	value Span
}

func (b *block) pairs(frame []byte) Pairs {
	return Pairs{frame: frame, b: b, at: uint64(b.off), left: b.count}
}

// Count is the number of pairs on the wire, those that are left out included:
// how many Next yields at most.
func (p *Pairs) Count() int { return int(p.b.count) }

// Next goes to the next field; false when there is none.
func (p *Pairs) Next() bool {
	for p.left != 0 {
		p.left--
		at := p.at
		n := binary.LittleEndian.Uint32(p.frame[at : at+4])
		p.name = Span{uint32(at) + 4, n}
		at += 4 + uint64(n)
		n = binary.LittleEndian.Uint32(p.frame[at : at+4])
		p.value = Span{uint32(at) + 4, n}
		p.at = at + 4 + uint64(n)
		if !p.b.drops || p.passes() {
			return true
		}
	}
	return false
}

// passes reports whether the current field is to be passed on.
func (p *Pairs) passes() bool {
	name := p.Name()
	class := classify(name)
	return (class == fieldPasses || class == fieldHost) && !p.b.hopByHop(p.frame, name)
}

// Name returns the name of the current field.
func (p *Pairs) Name() []byte { return p.name.Of(p.frame) }

// Value returns the value of the current field.
func (p *Pairs) Value() []byte { return p.value.Of(p.frame) }

// Spans returns where name and value of the current field lie in the frame.
func (p *Pairs) Spans() (name, value Span) { return p.name, p.value }

// All ranges over the fields that are left.
func (p Pairs) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for p.Next() {
			if !yield(p.Name(), p.Value()) {
				return
			}
		}
	}
}
