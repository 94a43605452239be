package main

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/hanzoai/pqgw/zapcodec"
)

// Kinds of frames that `zap decode` and `zap encode` tell apart.
const (
	kindAuto         = "auto"
	kindRequest      = "http-request"
	kindRequestHead  = "http-request-head"
	kindResponse     = "http-response"
	kindResponseHead = "http-response-head"
	kindData         = "http-data"
	kindEnd          = "http-end"
	kindMessage      = "message"
	kindRPCRequest   = "rpc-request"
	kindRPCResponse  = "rpc-response"

	// On a byte stream of RPC, besides the envelopes.
	kindRPCStreamOpen    = "rpc-stream-open"
	kindRPCStreamMessage = "rpc-stream-message"
	kindRPCStreamEnd     = "rpc-stream-end"
)

// zapKinds are the values of --kind.
var zapKinds = []string{
	kindAuto, kindRequest, kindRequestHead, kindResponse, kindResponseHead, kindData, kindEnd,
	kindMessage, kindRPCRequest, kindRPCResponse,
}

func checkKind(kind string) error {
	for _, k := range zapKinds {
		if k == kind {
			return nil
		}
	}
	return withCode(exitUsage, fmt.Errorf("unknown kind %q: it is one of %s", kind, strings.Join(zapKinds, ", ")))
}

// typeKinds gives the kind for each message type of HTTP.
var typeKinds = map[byte]string{
	zapcodec.TypeRequest:      kindRequest,
	zapcodec.TypeRequestHead:  kindRequestHead,
	zapcodec.TypeResponse:     kindResponse,
	zapcodec.TypeResponseHead: kindResponseHead,
	zapcodec.TypeData:         kindData,
	zapcodec.TypeEnd:          kindEnd,
}

// kindOf tells a frame's kind by its message type.
func kindOf(frame []byte) (string, error) {
	t, err := zapcodec.FrameType(frame)
	if err != nil {
		return "", err
	}
	if kind, known := typeKinds[t]; known {
		return kind, nil
	}
	if t == zapcodec.TypeRPC {
		return rpcKind(frame), nil
	}
	return kindMessage, nil
}

// rpcKind tells a response envelope from a request: they share a type. A
// response's fixed section is 20 bytes, and its body follows it at once.
func rpcKind(frame []byte) string {
	const response, request = 20, 28
	root := int(binary.LittleEndian.Uint32(frame[8:]))
	if len(frame)-root < request {
		return kindRPCResponse
	}
	rel := binary.LittleEndian.Uint32(frame[root+12:])
	length := binary.LittleEndian.Uint32(frame[root+16:])
	if rel == response-12 && uint64(length) == uint64(len(frame)-root-response) {
		return kindRPCResponse
	}
	return kindRPCRequest
}
