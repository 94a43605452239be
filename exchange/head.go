package exchange

// Head is the head of a message, of a request or of an answer, or a trailer
// section. Its bytes lie in two places: the wire buffer, which belongs to the
// transport that read it and which the head only points into, and an arena of
// the head's own, which takes what policies and HPACK write. Every position is
// an offset, so neither buffer costs a pointer per field.
//
// The zero Head is empty and ready. A Head is not safe for concurrent use, and
// what its accessors return is valid until the next Reset or until the
// transport reuses the wire buffer, whichever is first.
type Head struct {
	wire, arena []byte
	fields      []field
	first       [numNames]uint16 // index+1 of the first field of that name, dropped or not
	live        int

	method, scheme, authority, target, protocol, reason, version span

	// Method is the id of the request's method; MethodOther when it is none of ours.
	Method Method
	// Status is the status code of an answer, 0 on a request.
	Status int
	// Length is what Content-Length says, in bytes, or -1 where there is none.
	// Framing fields never travel as fields: each transport writes its own.
	Length int64
	// Chunked is set on an HTTP/1 message whose body is framed by chunks.
	Chunked bool
	// Close is set where the peer asked for the connection to end after this message.
	Close bool
	// ExpectContinue is set on a request that waits for 100 (RFC 9110, section 10.1.1).
	ExpectContinue bool
	// Trailers is set on a request whose TE admits trailers (RFC 9110, section 10.1.4).
	TETrailers bool
}

type field struct {
	name, value span
	id          Name
	dropped     bool
}

// span is a run of bytes of the wire, or of the arena where arenaBit is set.
type span struct{ off, len uint32 }

const arenaBit = 1 << 31

// Reset empties the head and lets it point into wire, which may be nil.
func (h *Head) Reset(wire []byte) {
	fields, arena := h.fields[:0], h.arena[:0]
	*h = Head{wire: wire, arena: arena, fields: fields, Length: -1}
}

// Rebase moves the head onto another copy of the wire bytes: same content, same
// offsets.
func (h *Head) Rebase(wire []byte) { h.wire = wire }

// Detach copies the wire bytes into the arena's keeping, so that the
// transport's buffer may go.
func (h *Head) Detach() {
	if h.wire != nil {
		h.wire = append([]byte(nil), h.wire...)
	}
}

func (h *Head) bytes(s span) []byte {
	if s.off&arenaBit != 0 {
		off := s.off &^ arenaBit
		return h.arena[off : off+s.len : off+s.len]
	}
	return h.wire[s.off : s.off+s.len : s.off+s.len]
}

func store[T []byte | string](h *Head, b T) span {
	off := len(h.arena)
	h.arena = append(h.arena, b...)
	return span{uint32(off) | arenaBit, uint32(len(b))}
}

func wireSpan(off, end int) span { return span{uint32(off), uint32(end - off)} }

// AddWire appends the field whose name and value lie at these offsets of the
// wire buffer.
func (h *Head) AddWire(name, nameEnd, value, valueEnd int) {
	h.add(wireSpan(name, nameEnd), wireSpan(value, valueEnd), LookupName(h.wire[name:nameEnd]))
}

// Add appends a field, copying both parts.
func (h *Head) Add(name, value []byte) { h.add(store(h, name), store(h, value), LookupName(name)) }

// AddString appends a field, copying both parts.
func (h *Head) AddString(name, value string) {
	n := store(h, name)
	h.add(n, store(h, value), LookupName(h.bytes(n)))
}

// AddKnown appends a field of a known name, copying the value.
func (h *Head) AddKnown(id Name, value []byte) {
	h.add(store(h, canonical[id]), store(h, value), id)
}

// AddKnownString appends a field of a known name, copying the value.
func (h *Head) AddKnownString(id Name, value string) {
	h.add(store(h, canonical[id]), store(h, value), id)
}

func (h *Head) add(name, value span, id Name) {
	h.fields = append(h.fields, field{name: name, value: value, id: id})
	if id != Unknown && h.first[id] == 0 {
		h.first[id] = uint16(len(h.fields))
	}
	h.live++
}

// Len is the number of fields, dropped ones included; indices run below it.
func (h *Head) Len() int { return len(h.fields) }

// Live is the number of fields that have not been dropped.
func (h *Head) Live() int { return h.live }

// Dropped tells whether field i is to be left out.
func (h *Head) Dropped(i int) bool { return h.fields[i].dropped }

// Name is the name of field i as it was written.
func (h *Head) Name(i int) []byte { return h.bytes(h.fields[i].name) }

// Value is the value of field i.
func (h *Head) Value(i int) []byte { return h.bytes(h.fields[i].value) }

// ID is the known name of field i.
func (h *Head) ID(i int) Name { return h.fields[i].id }

// Drop leaves field i out from now on.
func (h *Head) Drop(i int) {
	if !h.fields[i].dropped {
		h.fields[i].dropped = true
		h.live--
	}
}

// Next finds the first field of that known name that is not dropped, at index
// from or later; -1 when there is none.
func (h *Head) Next(id Name, from int) int {
	if h.first[id] == 0 {
		return -1
	}
	for i := max(from, int(h.first[id])-1); i < len(h.fields); i++ {
		if f := &h.fields[i]; f.id == id && !f.dropped {
			return i
		}
	}
	return -1
}

// Get is the value of the first field of that known name, nil when there is none.
func (h *Head) Get(id Name) []byte {
	if i := h.Next(id, 0); i >= 0 {
		return h.Value(i)
	}
	return nil
}

// Has tells whether a field of that known name is there.
func (h *Head) Has(id Name) bool { return h.Next(id, 0) >= 0 }

// Find is the index of the first live field of that name at from or later,
// without regard to case; -1 when there is none.
func (h *Head) Find(name string, from int) int {
	for i := from; i < len(h.fields); i++ {
		if !h.fields[i].dropped && EqualFold(h.Name(i), name) {
			return i
		}
	}
	return -1
}

// Remove drops every field of that known name.
func (h *Head) Remove(id Name) {
	for i := h.Next(id, 0); i >= 0; i = h.Next(id, i+1) {
		h.Drop(i)
	}
}

// RemoveString drops every field of that name.
func (h *Head) RemoveString(name string) {
	for i := h.Find(name, 0); i >= 0; i = h.Find(name, i+1) {
		h.Drop(i)
	}
}

// Set replaces every field of that known name by one.
func (h *Head) Set(id Name, value []byte) {
	h.Remove(id)
	h.AddKnown(id, value)
}

// SetString replaces every field of that known name by one.
func (h *Head) SetString(id Name, value string) {
	h.Remove(id)
	h.AddKnownString(id, value)
}

// CopyFields appends the live fields of src.
func (h *Head) CopyFields(src *Head) {
	for i := range src.Len() {
		if !src.Dropped(i) {
			h.add(store(h, src.Name(i)), store(h, src.Value(i)), src.fields[i].id)
		}
	}
}
