// Package buffer keeps the transports' memory: buffers of a few sizes, pooled,
// taken once there is something to read and given back before a wait.
package buffer

import "sync"

// The sizes. A small one holds most heads, a medium one a whole answer of 64 KiB
// with its head, a large one makes bulk cheap: fewer system calls than smaller ones, while larger
// ones fall out of the cache.
const (
	Small  = 4 << 10
	Medium = 68 << 10
	Large  = 256 << 10
)

// Buffer is a piece of pooled memory. Its length is its size.
type Buffer struct {
	B    []byte
	pool *sync.Pool
}

var small, medium, large = pool(Small), pool(Medium), pool(Large)

func pool(size int) *sync.Pool {
	p := &sync.Pool{}
	p.New = func() any { return &Buffer{B: make([]byte, size), pool: p} }
	return p
}

// Get gives a buffer of the smallest size that holds n bytes; one beyond
// Large is made to measure and not kept.
func Get(n int) *Buffer {
	switch {
	case n <= Small:
		return small.Get().(*Buffer)
	case n <= Medium:
		return medium.Get().(*Buffer)
	case n <= Large:
		return large.Get().(*Buffer)
	}
	return &Buffer{B: make([]byte, n)}
}

// Put gives the buffer back; nil is nothing.
func (b *Buffer) Put() {
	if b != nil && b.pool != nil {
		poison(b.B)
		b.pool.Put(b)
	}
}
