package codec

import (
	stdjson "encoding/json"

	"github.com/bytedance/sonic"
	goccy "github.com/goccy/go-json"
)

// JSONCodec is a JSON library that the record is measured with.
type JSONCodec struct {
	Name      string // as benchmarks and tables call it
	Marshal   func(v any) ([]byte, error)
	Unmarshal func(b []byte, v any) error
}

// JSONCodecs lists the libraries that are compared, the standard library
// first; encoding/json/v2 is among them when the toolchain was told to build
// it (GOEXPERIMENT=jsonv2).
func JSONCodecs() []JSONCodec {
	list := []JSONCodec{
		{"encoding-json", stdjson.Marshal, stdjson.Unmarshal},
		{"goccy", goccy.Marshal, goccy.Unmarshal},
		{"sonic", sonic.Marshal, sonic.Unmarshal},
	}
	return append(list, jsonV2...)
}
