package main

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/hanzoai/pqgw/zapcodec"
)

// describeFrame parses a frame of the given kind into its JSON form. The work is
// bounded by a small multiple of the frame: no pointer is followed but the
// cells of known kinds, and none of those twice.
func describeFrame(kind string, frame []byte) (any, error) {
	named := ""
	if kind == kindAuto {
		found, err := kindOf(frame)
		if err != nil {
			return nil, err
		}
		kind, named = found, found
	}
	switch kind {
	case kindRequest, kindRequestHead:
		return describeRequest(kind, named, frame)
	case kindResponse, kindResponseHead:
		return describeResponse(kind, named, frame)
	case kindData:
		s, err := zapcodec.ParseData(frame)
		if err != nil {
			return nil, err
		}
		return dataJSON{Kind: named, Chunk: s.Of(frame)}, nil
	case kindEnd:
		var v zapcodec.EndView
		if err := v.Parse(frame); err != nil {
			return nil, err
		}
		return endJSON{Kind: named, Trailers: jsonPairs(v.Trailers())}, nil
	case kindRPCRequest, kindRPCStreamOpen:
		return describeRPCRequest(named, frame)
	case kindRPCResponse:
		return describeRPCResponse(named, frame)
	default:
		return describeMessage(named, frame)
	}
}

// wrongKind is the error for a frame of another kind than was asked for.
func wrongKind(want string, streamed bool) error {
	got := "whole"
	if streamed {
		got = "a head alone"
	}
	return fmt.Errorf("%w: the frame is %s, which %s is not", zapcodec.ErrType, got, want)
}

func describeRequest(kind, named string, frame []byte) (any, error) {
	var v zapcodec.RequestView
	if err := v.Parse(frame); err != nil {
		return nil, err
	}
	if v.Streamed() != (kind == kindRequestHead) {
		return nil, wrongKind(kind, v.Streamed())
	}
	r := requestJSON{
		Kind: named, Method: string(v.Method()), Proto: string(v.Proto()),
		Headers: jsonPairs(v.Headers()), Body: v.Body(), Trailers: jsonPairs(v.Trailers()),
	}
	r.Target, r.TargetHex = jsonText(v.Target())
	return r, nil
}

func describeResponse(kind, named string, frame []byte) (any, error) {
	var v zapcodec.ResponseView
	if err := v.Parse(frame); err != nil {
		return nil, err
	}
	if v.Streamed() != (kind == kindResponseHead) {
		return nil, wrongKind(kind, v.Streamed())
	}
	r := responseJSON{
		Kind: named, Status: v.Status(), Proto: string(v.Proto()),
		Headers: jsonPairs(v.Headers()), Body: v.Body(), Trailers: jsonPairs(v.Trailers()),
	}
	r.Reason, r.ReasonHex = jsonText(v.Reason())
	return r, nil
}

func jsonPairs(p zapcodec.Pairs) []zapPair {
	list := []zapPair{}
	for p.Next() {
		list = append(list, zapPair{string(p.Name()), hex.EncodeToString(p.Value())})
	}
	return list
}

func describeRPCRequest(named string, frame []byte) (any, error) {
	var r zapcodec.RPCRequest
	if err := zapcodec.ParseRPCRequest(frame, &r); err != nil {
		return nil, err
	}
	return rpcRequestJSON{Kind: named, Method: r.Method, Promise: r.Promise, Target: r.Target, Cap: r.Cap, Payload: r.Payload}, nil
}

func describeRPCResponse(named string, frame []byte) (any, error) {
	var r zapcodec.RPCResponse
	if err := zapcodec.ParseRPCResponse(frame, &r); err != nil {
		return nil, err
	}
	return rpcResponseJSON{Kind: named, Status: r.Status, Promise: r.Promise, Body: r.Body}, nil
}

func describeMessage(named string, frame []byte) (any, error) {
	m, err := zapcodec.Open(frame)
	if err != nil {
		return nil, err
	}
	h := m.Header()
	return messageJSON{
		Kind: named, Version: h.Version, Flags: h.Flags, Type: h.Type(), Root: h.Root, Size: h.Size,
		Fixed: hexdump(frame[h.Root:fixedEnd(frame, int(h.Root))], int(h.Root)),
		Data:  frame[zapcodec.HeaderLen:],
	}, nil
}

// fixedEnd guesses where the root's fixed section ends, which only a schema
// knows: where a chain of text and bytes cells begins whose targets lie back to
// back up to the end of the message, as every writer puts them; else the whole
// rest counts as fixed.
func fixedEnd(frame []byte, root int) int {
	first, next := len(frame), -1
	for pos := root; pos+8 <= first; pos += 4 {
		rel, n := binary.LittleEndian.Uint32(frame[pos:]), binary.LittleEndian.Uint32(frame[pos+4:])
		target := uint64(pos) + uint64(rel)
		if rel < 8 || n == 0 || target+uint64(n) > uint64(len(frame)) {
			continue
		}
		switch {
		case next < 0:
			first, next = int(target), int(target)+int(n)
		case int(target) == next:
			next += int(n)
		}
	}
	if next == len(frame) {
		return first
	}
	return len(frame)
}

// hexdump shows bytes 16 to a line, each line with its offset in the frame.
func hexdump(b []byte, offset int) []string {
	lines := []string{}
	for len(b) > 0 {
		n := min(16, len(b))
		lines = append(lines, fmt.Sprintf("%08x  %-48s|%s|", offset, spacedHex(b[:n]), printable(b[:n])))
		b, offset = b[n:], offset+n
	}
	return lines
}

func spacedHex(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		fmt.Fprintf(&s, "%02x ", c)
	}
	return s.String()
}

func printable(b []byte) string {
	s := []byte(string(b))
	for i, c := range s {
		if c < 0x20 || c > 0x7e {
			s[i] = '.'
		}
	}
	return string(s)
}

// describeFramed is describeFrame for a frame of a stream.
func describeFramed(framing zapcodec.Framing, kind string, f zapcodec.Frame) (any, error) {
	if framing != zapcodec.FramingRPC {
		return describeFrame(kind, f.Bytes)
	}
	switch f.Tag {
	case zapcodec.DirectionRequest:
		return describeRPCRequest(kindRPCRequest, f.Bytes)
	case zapcodec.DirectionResponse:
		return describeRPCResponse(kindRPCResponse, f.Bytes)
	case zapcodec.DirectionStreamOpen:
		return describeRPCRequest(kindRPCStreamOpen, f.Bytes)
	}
	id, payload, err := zapcodec.ParseStreamFrame(f.Bytes)
	if err != nil {
		return nil, err
	}
	named := kindRPCStreamMessage
	if f.Tag == zapcodec.DirectionStreamEnd {
		named = kindRPCStreamEnd
	}
	return rpcStreamJSON{Kind: named, Promise: id, Payload: payload}, nil
}
