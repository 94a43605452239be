package http2

import "sync"

// chunk is pooled memory for the bytes of a body.
type chunk struct {
	b     []byte
	class int
}

// chunkSizes are the sizes memory comes in. A body that outgrows one moves to
// the next; the largest holds a stream's whole window.
var chunkSizes = [...]int{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}

var chunkPools [len(chunkSizes)]sync.Pool

// getChunk gives an empty chunk for at least n bytes; past the largest size it
// is not pooled.
func getChunk(n int) *chunk {
	for i, size := range chunkSizes {
		if n <= size {
			if c, ok := chunkPools[i].Get().(*chunk); ok {
				return c
			}
			return &chunk{b: make([]byte, 0, size), class: i}
		}
	}
	return &chunk{b: make([]byte, 0, n), class: -1}
}

func (c *chunk) release() {
	if c == nil || c.class < 0 {
		return
	}
	c.b = c.b[:0]
	chunkPools[c.class].Put(c)
}

// grow gives a chunk with the same bytes and room for n more.
func (c *chunk) grow(n int) *chunk {
	if cap(c.b)-len(c.b) >= n {
		return c
	}
	to := getChunk(max(len(c.b)+n, 2*len(c.b)))
	to.b = append(to.b, c.b...)
	c.release()
	return to
}
