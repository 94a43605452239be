package bench

import (
	"context"
	"encoding/json"
	"runtime"
)

// Memory is a process's account of its heap since it began.
type Memory struct {
	Mallocs uint64 `json:"mallocs"` // objects
	Bytes   uint64 `json:"bytes"`
	GCs     uint32 `json:"gcs"` // cycles
}

// MemoryVerb tells a child's own Memory.
func MemoryVerb(context.Context, json.RawMessage) (any, error) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Memory{Mallocs: m.Mallocs, Bytes: m.TotalAlloc, GCs: m.NumGC}, nil
}

// Memory asks a child that knows the verb "memory", see [MemoryVerb].
func (c *Child) Memory(ctx context.Context) (m Memory, err error) {
	err = c.Call(ctx, "memory", nil, &m)
	return m, err
}
