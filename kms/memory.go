package kms

import "sync"

// chunkSize is what the arena asks of the system at a time: small enough that
// a few keys fit the usual RLIMIT_MEMLOCK, large enough to hold a thousand.
const chunkSize = 64 << 10

// slotSizes are the sizes handed out from chunks; larger values get a mapping
// of their own.
var slotSizes = [...]int{64, 256, 1024, 4096}

// arena hands out memory for secrets. Slots are zeroed when they come back.
type arena struct {
	mu   sync.Mutex
	free [len(slotSizes)][][]byte
}

// protected is the memory of all secrets of the process.
var protected arena

func slotClass(n int) int {
	for i, size := range slotSizes {
		if n <= size {
			return i
		}
	}
	return -1
}

// alloc returns n zero bytes, never nil.
func (a *arena) alloc(n int) []byte {
	class := slotClass(n)
	if class < 0 {
		return mapProtected(n)[:n]
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.free[class]) == 0 {
		a.grow(class)
	}
	last := len(a.free[class]) - 1
	slot := a.free[class][last]
	a.free[class] = a.free[class][:last]
	return slot[:n]
}

func (a *arena) grow(class int) {
	size := slotSizes[class]
	chunk := mapProtected(chunkSize)
	for len(chunk) >= size {
		a.free[class] = append(a.free[class], chunk[:size:size])
		chunk = chunk[size:]
	}
}

// release zeroes b and takes it back.
func (a *arena) release(b []byte) {
	b = b[:cap(b)]
	clear(b)
	class := slotClass(len(b))
	if class < 0 || len(b) != slotSizes[class] {
		unmapProtected(b)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free[class] = append(a.free[class], b)
}
