package zapcodec

import (
	"encoding/binary"
	"slices"
)

// The functions here copy and have a quick look in one pass: reading a field
// twice would cost an encoder a third of its time.

// appendPair appends a name and a value, each after its length. A high bit in
// odd says that the name or the value needs an exact look.
func appendPair(buf, name, value []byte) (out []byte, odd uint64) {
	at, n := len(buf), len(name)
	end := at + 8 + n + len(value)
	if cap(buf) < end {
		buf = slices.Grow(buf, end-at)
	}
	buf = buf[:end]
	binary.LittleEndian.PutUint32(buf[at:at+4], uint32(n))
	odd = copyToken(buf[at+4:end], name)
	at += 8 + n
	binary.LittleEndian.PutUint32(buf[at-4:at], uint32(len(value)))
	return buf, odd | copyValue(buf[at:end], value)
}

// copyToken copies s; a high bit in odd says that it holds more than letters
// and '-'.
func copyToken(dst, s []byte) (odd uint64) {
	n := len(s)
	dst = dst[:n]
	if n < 8 {
		return oddToken(copyShort(dst, s))
	}
	for i := 0; i+8 < n; i += 8 {
		w := binary.LittleEndian.Uint64(s[i : i+8])
		binary.LittleEndian.PutUint64(dst[i:i+8], w)
		odd |= oddToken(w)
	}
	w := binary.LittleEndian.Uint64(s[n-8:])
	binary.LittleEndian.PutUint64(dst[n-8:], w)
	return odd | oddToken(w)
}

// copyValue copies v; a high bit in odd says that it holds bytes below 0x10.
func copyValue(dst, v []byte) (odd uint64) {
	n := len(v)
	dst = dst[:n]
	if n < 8 {
		return oddValue(copyShort(dst, v))
	}
	for i := 0; i+8 < n; i += 8 {
		w := binary.LittleEndian.Uint64(v[i : i+8])
		binary.LittleEndian.PutUint64(dst[i:i+8], w)
		odd |= oddValue(w)
	}
	w := binary.LittleEndian.Uint64(v[n-8:])
	binary.LittleEndian.PutUint64(dst[n-8:], w)
	return odd | oddValue(w)
}

// copyVisible copies s; a high bit in odd says that it holds more than visible
// ASCII.
func copyVisible(dst, s []byte) (odd uint64) {
	n := len(s)
	dst = dst[:n]
	if n < 8 {
		return oddVisible(copyShort(dst, s))
	}
	for i := 0; i+8 < n; i += 8 {
		w := binary.LittleEndian.Uint64(s[i : i+8])
		binary.LittleEndian.PutUint64(dst[i:i+8], w)
		odd |= oddVisible(w)
	}
	w := binary.LittleEndian.Uint64(s[n-8:])
	binary.LittleEndian.PutUint64(dst[n-8:], w)
	return odd | oddVisible(w)
}

// copyShort copies up to 7 bytes and returns them in a word beside blanks.
func copyShort(dst, s []byte) uint64 {
	w := uint64(blanks)
	for i, c := range s {
		dst[i] = c
		w = w<<8 | uint64(c)
	}
	return w
}
