package zapcodec

import (
	"encoding/binary"
	"slices"
)

// The functions here copy and check in one pass: reading a field twice would
// cost an encoder a third of its time.

// appendPair appends a name and a value, each after its length. It returns 0
// as odd if the name is of letters, digits and dashes and no byte of the value
// is below 0x10; what else they hold needs a closer look.
func appendPair(buf, name, value []byte) (out []byte, odd uint64) {
	at, n, m := len(buf), len(name), len(value)
	if cap(buf)-at < 8+n+m {
		buf = slices.Grow(buf, 8+n+m)
	}
	buf = buf[:at+8+n+m]
	binary.LittleEndian.PutUint32(buf[at:], uint32(n))
	to := buf[at+4 : at+4+n]
	if n >= 8 {
		for i := 0; i+8 < n; i += 8 {
			w := binary.LittleEndian.Uint64(name[i : i+8])
			binary.LittleEndian.PutUint64(to[i:i+8], w)
			odd |= plain(w) ^ highs
		}
		w := binary.LittleEndian.Uint64(name[n-8:])
		binary.LittleEndian.PutUint64(to[n-8:], w)
		odd |= plain(w) ^ highs
	} else {
		odd = plain(copyShort(to, name)) ^ highs
	}
	binary.LittleEndian.PutUint32(buf[at+4+n:], uint32(m))
	to = buf[at+8+n:]
	if m < 8 {
		return buf, odd | below(copyShort(to, value), 0x10)
	}
	for i := 0; i+8 < m; i += 8 {
		w := binary.LittleEndian.Uint64(value[i : i+8])
		binary.LittleEndian.PutUint64(to[i:i+8], w)
		odd |= below(w, 0x10)
	}
	w := binary.LittleEndian.Uint64(value[m-8:])
	binary.LittleEndian.PutUint64(to[m-8:], w)
	return buf, odd | below(w, 0x10)
}

// copyShort copies 0 to 7 bytes and returns them as word does.
func copyShort(dst, s []byte) uint64 {
	n := len(s)
	dst = dst[:n]
	switch {
	case n >= 4:
		a, b := binary.LittleEndian.Uint32(s), binary.LittleEndian.Uint32(s[n-4:])
		binary.LittleEndian.PutUint32(dst, a)
		binary.LittleEndian.PutUint32(dst[n-4:], b)
		return uint64(a) | uint64(b)<<32
	case n >= 2:
		a, b := binary.LittleEndian.Uint16(s), binary.LittleEndian.Uint16(s[n-2:])
		binary.LittleEndian.PutUint16(dst, a)
		binary.LittleEndian.PutUint16(dst[n-2:], b)
		return uint64(a) | uint64(b)<<16 | blanks>>32<<32
	case n == 1:
		dst[0] = s[0]
		return uint64(s[0]) | blanks>>8<<8
	}
	return blanks
}
