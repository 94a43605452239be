package http2

import "github.com/hanzoai/pqgw/exchange"

// tableField is an entry of the static table (RFC 7541, appendix A).
type tableField struct{ name, value []byte }

var staticTable = func() (t [62]tableField) {
	for i, f := range [...][2]string{
		1: {":authority", ""}, 2: {":method", "GET"}, 3: {":method", "POST"}, 4: {":path", "/"},
		5: {":path", "/index.html"}, 6: {":scheme", "http"}, 7: {":scheme", "https"}, 8: {":status", "200"},
		9: {":status", "204"}, 10: {":status", "206"}, 11: {":status", "304"}, 12: {":status", "400"},
		13: {":status", "404"}, 14: {":status", "500"}, 15: {"accept-charset", ""},
		16: {"accept-encoding", "gzip, deflate"}, 17: {"accept-language", ""}, 18: {"accept-ranges", ""},
		19: {"accept", ""}, 20: {"access-control-allow-origin", ""}, 21: {"age", ""}, 22: {"allow", ""},
		23: {"authorization", ""}, 24: {"cache-control", ""}, 25: {"content-disposition", ""},
		26: {"content-encoding", ""}, 27: {"content-language", ""}, 28: {"content-length", ""},
		29: {"content-location", ""}, 30: {"content-range", ""}, 31: {"content-type", ""}, 32: {"cookie", ""},
		33: {"date", ""}, 34: {"etag", ""}, 35: {"expect", ""}, 36: {"expires", ""}, 37: {"from", ""},
		38: {"host", ""}, 39: {"if-match", ""}, 40: {"if-modified-since", ""}, 41: {"if-none-match", ""},
		42: {"if-range", ""}, 43: {"if-unmodified-since", ""}, 44: {"last-modified", ""}, 45: {"link", ""},
		46: {"location", ""}, 47: {"max-forwards", ""}, 48: {"proxy-authenticate", ""},
		49: {"proxy-authorization", ""}, 50: {"range", ""}, 51: {"referer", ""}, 52: {"refresh", ""},
		53: {"retry-after", ""}, 54: {"server", ""}, 55: {"set-cookie", ""},
		56: {"strict-transport-security", ""}, 57: {"transfer-encoding", ""}, 58: {"user-agent", ""},
		59: {"vary", ""}, 60: {"via", ""}, 61: {"www-authenticate", ""},
	} {
		t[i] = tableField{[]byte(f[0]), []byte(f[1])}
	}
	return t
}()

// Indices of the static table that the encoder uses by name.
const (
	staticAuthority     = 1
	staticMethod        = 2
	staticPath          = 4
	staticScheme        = 6
	staticStatus        = 8
	staticContentLength = 28
)

// staticByName gives the static index of a name that the exchange does not know.
var staticByName = func() map[string]uint8 {
	m := make(map[string]uint8)
	for i := len(staticTable) - 1; i > 14; i-- {
		m[string(staticTable[i].name)] = uint8(i)
	}
	return m
}()

// staticByID gives the static index of a known name, 0 for none.
var staticByID = func() (t [256]uint8) {
	for name, i := range staticByName {
		if id := exchange.LookupName([]byte(name)); id != exchange.Unknown {
			t[id] = i
		}
	}
	return t
}()

// entryOverhead is what each entry counts beyond its bytes (RFC 7541, section 4.1).
const entryOverhead = 32

// dynamicTable is the decoder's dynamic table: entries' bytes one after the other
// in one buffer, oldest first, so that an entry costs no allocation.
type dynamicTable struct {
	buf  []byte
	ents []tableEntry
	head int // first live entry
	size uint32
	max  uint32
}

type tableEntry struct{ off, name, value uint32 }

func (t *dynamicTable) len() int { return len(t.ents) - t.head }

// at gives entry i, 0 the newest.
func (t *dynamicTable) at(i int) (name, value []byte) {
	e := t.ents[len(t.ents)-1-i]
	mid, end := e.off+e.name, e.off+e.name+e.value
	return t.buf[e.off:mid:mid], t.buf[mid:end:end]
}

func (t *dynamicTable) setMax(n uint32) {
	t.max = n
	t.evict(0)
}

// evict makes room for an entry of that size.
func (t *dynamicTable) evict(room uint32) {
	for t.head < len(t.ents) && t.size+room > t.max {
		e := t.ents[t.head]
		t.size -= e.name + e.value + entryOverhead
		t.head++
	}
	if t.head == len(t.ents) {
		t.ents, t.head, t.buf = t.ents[:0], 0, t.buf[:0]
	}
}

// add inserts a field; neither part may lie in the table's own buffer.
func (t *dynamicTable) add(name, value []byte) {
	size := uint32(len(name) + len(value) + entryOverhead)
	if size > t.max {
		t.evict(t.max + 1)
		return
	}
	t.evict(size)
	t.reserve(len(name) + len(value))
	off := uint32(len(t.buf))
	t.buf = append(append(t.buf, name...), value...)
	t.ents = append(t.ents, tableEntry{off, uint32(len(name)), uint32(len(value))})
	t.size += size
}

// reserve moves the live entries to the front, of a larger buffer where they
// would fill more than half of this one: each byte is moved a bounded number of times.
func (t *dynamicTable) reserve(n int) {
	if t.head > 0 && len(t.ents) == cap(t.ents) {
		t.ents = t.ents[:copy(t.ents, t.ents[t.head:])]
		t.head = 0
	}
	if len(t.buf)+n <= cap(t.buf) {
		return
	}
	first := uint32(len(t.buf))
	if t.len() > 0 {
		first = t.ents[t.head].off
	}
	live := t.buf[first:]
	to := t.buf
	if need := 2 * (len(live) + n); need > cap(t.buf) {
		to = make([]byte, 0, max(need, 256))
	}
	t.buf = append(to[:0], live...)
	for i := t.head; i < len(t.ents); i++ {
		t.ents[i].off -= first
	}
}
