//go:build !goexperiment.jsonv2

package codec

// jsonV2 is empty: this toolchain builds no encoding/json/v2.
var jsonV2 []JSONCodec
