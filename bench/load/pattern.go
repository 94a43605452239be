package load

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// MaxBody is the largest body, in bytes.
const MaxBody = 1 << 20

// pattern is what bodies are cut from; it does not repeat within a packet. It is made at
// its first use: the gateway has this code too and never needs it.
var pattern = sync.OnceValue(func() []byte {
	b := make([]byte, MaxBody)
	state := uint32(1)
	for i := range b {
		state = state*1664525 + 1013904223
		b[i] = byte(state >> 24)
	}
	return b
})

// same compares what came at an offset with the pattern.
func same(got []byte, at int64) bool {
	return at+int64(len(got)) <= MaxBody && bytes.Equal(got, pattern()[at:at+int64(len(got))])
}

// verify asks the origin to compare the body of an upload.
const verify = "?verify"

// Path of a body of so many bytes, for downloads and for uploads.
func Path(size int) string { return "/" + strconv.Itoa(size) }

// sizeOf reads a path.
func sizeOf(target []byte) (size int, compare bool, err error) {
	text, compare := strings.CutSuffix(string(target), verify)
	size, err = strconv.Atoi(strings.TrimPrefix(text, "/"))
	if err != nil || size < 0 || size > MaxBody {
		return 0, false, fmt.Errorf("no body %q", target)
	}
	return size, compare, nil
}
