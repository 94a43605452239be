package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/hanzoai/pqgw/zapcodec"
	"github.com/spf13/cobra"
)

func init() { zapCommands = append(zapCommands, newZapEncode) }

func newZapEncode() *cobra.Command {
	o := zapOptions{limit: zapcodec.DefaultLimit}
	cmd := &cobra.Command{
		Use:   "encode [FILE]",
		Short: "Write a ZAP frame from JSON",
		Long: `Write a ZAP frame from the JSON that 'zap decode' prints, read from FILE or
standard input. With --kind auto the key "kind" of each object says what it is.

With --length-prefixed any number of objects makes a stream of frames, each after
its length; those of RPC with their direction.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkKind(o.kind); err != nil {
				return err
			}
			in, err := openZapInput(cmd, args)
			if err != nil {
				return err
			}
			defer in.Close()
			return zapEncode(&o, in, cmd.OutOrStdout())
		},
	}
	o.register(cmd, "write hex digits and a newline", "write a stream of frames, each after its length")
	return cmd
}

func zapEncode(o *zapOptions, in io.Reader, out io.Writer) error {
	w := bufio.NewWriter(out)
	dec := json.NewDecoder(in)
	for n := 1; ; n++ {
		var raw json.RawMessage
		err := dec.Decode(&raw)
		if errors.Is(err, io.EOF) && n > 1 {
			return w.Flush()
		}
		if err != nil {
			return errors.Join(fmt.Errorf("object %d: %w", n, noInput(err)), w.Flush())
		}
		if n > 1 && !o.prefixed {
			return errors.Join(errors.New("more than one object: a frame alone is written without --length-prefixed"), w.Flush())
		}
		frame, err := encodeObject(o, raw)
		if err != nil {
			return errors.Join(fmt.Errorf("object %d: %w", n, err), w.Flush())
		}
		if o.hex {
			frame = append(hex.AppendEncode(nil, frame), '\n')
		}
		if _, err := w.Write(frame); err != nil {
			return err
		}
	}
}

func noInput(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("no JSON in the input")
	}
	return err
}

// encodeObject writes one object as a frame, with its prefix if that is asked
// for.
func encodeObject(o *zapOptions, raw json.RawMessage) ([]byte, error) {
	kind := o.kind
	var named struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(raw, &named); err != nil {
		return nil, err
	}
	if named.Kind != "" && (kind == kindAuto || o.prefixed) {
		kind = named.Kind
	}
	if kind == kindAuto {
		return nil, withCode(exitUsage, errors.New(`no "kind" in the object: give --kind`))
	}
	frame, err := encodeKind(kind, raw)
	if err != nil || !o.prefixed {
		return frame, err
	}
	return zapPrefix(kind, frame)
}

// zapPrefix puts before a frame what a byte stream needs.
func zapPrefix(kind string, frame []byte) ([]byte, error) {
	framing, tag := zapcodec.FramingHTTP, byte(0)
	if t, rpc := rpcDirections[kind]; rpc {
		framing, tag = zapcodec.FramingRPC, t
	}
	dst, err := framing.AppendPrefix(nil, tag, len(frame))
	if err != nil {
		return nil, err
	}
	return append(dst, frame...), nil
}

var rpcDirections = map[string]byte{
	kindRPCRequest:       zapcodec.DirectionRequest,
	kindRPCResponse:      zapcodec.DirectionResponse,
	kindRPCStreamOpen:    zapcodec.DirectionStreamOpen,
	kindRPCStreamMessage: zapcodec.DirectionStreamMessage,
	kindRPCStreamEnd:     zapcodec.DirectionStreamEnd,
}

// unmarshalKnown reads an object and refuses keys that its kind does not know:
// what is misspelt would be left out in silence.
func unmarshalKnown(raw json.RawMessage, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

func encodeKind(kind string, raw json.RawMessage) ([]byte, error) {
	switch kind {
	case kindRequest, kindRequestHead:
		return encodeRequest(kind, raw)
	case kindResponse, kindResponseHead:
		return encodeResponse(kind, raw)
	case kindData:
		var v dataJSON
		if err := unmarshalKnown(raw, &v); err != nil {
			return nil, err
		}
		return zapcodec.AppendData(nil, 0, v.Chunk)
	case kindEnd:
		var v endJSON
		if err := unmarshalKnown(raw, &v); err != nil {
			return nil, err
		}
		trailers, err := codecPairs(v.Trailers, v.VectorTrailers)
		if err != nil {
			return nil, err
		}
		return zapcodec.AppendEnd(nil, 0, trailers)
	case kindRPCRequest, kindRPCStreamOpen:
		var v rpcRequestJSON
		if err := unmarshalKnown(raw, &v); err != nil {
			return nil, err
		}
		return zapcodec.AppendRPCRequest(nil, &zapcodec.RPCRequest{Method: v.Method, Promise: v.Promise, Target: v.Target, Cap: v.Cap, Payload: v.Payload})
	case kindRPCResponse:
		var v rpcResponseJSON
		if err := unmarshalKnown(raw, &v); err != nil {
			return nil, err
		}
		return zapcodec.AppendRPCResponse(nil, &zapcodec.RPCResponse{Status: v.Status, Promise: v.Promise, Body: v.Body})
	case kindRPCStreamMessage, kindRPCStreamEnd:
		return encodeRPCStream(kind, raw)
	case kindMessage:
		return encodeMessage(raw)
	}
	return nil, fmt.Errorf("unknown kind %q", kind)
}

func encodeRequest(kind string, raw json.RawMessage) ([]byte, error) {
	var v requestJSON
	if err := unmarshalKnown(raw, &v); err != nil {
		return nil, err
	}
	headers, err := codecPairs(v.Headers, v.VectorHeaders)
	if err != nil {
		return nil, err
	}
	trailers, err := codecPairs(v.Trailers, v.VectorTrailers)
	if err != nil {
		return nil, err
	}
	r := zapcodec.Request{
		Method: []byte(v.Method), Target: rawText(v.Target, v.TargetHex), Proto: []byte(v.Proto),
		Headers: headers, Body: v.Body, Trailers: trailers, Streamed: kind == kindRequestHead,
	}
	return r.Append(nil, 0)
}

func encodeResponse(kind string, raw json.RawMessage) ([]byte, error) {
	var v responseJSON
	if err := unmarshalKnown(raw, &v); err != nil {
		return nil, err
	}
	headers, err := codecPairs(v.Headers, v.VectorHeaders)
	if err != nil {
		return nil, err
	}
	trailers, err := codecPairs(v.Trailers, v.VectorTrailers)
	if err != nil {
		return nil, err
	}
	r := zapcodec.Response{
		Status: v.Status, Reason: rawText(v.Reason, v.ReasonHex), Proto: []byte(v.Proto),
		Headers: headers, Body: v.Body, Trailers: trailers, Streamed: kind == kindResponseHead,
	}
	return r.Append(nil, 0)
}

func codecPairs(lists ...[]zapPair) (pairs []zapcodec.Pair, err error) {
	for _, list := range lists {
		for _, p := range list {
			value, err := hex.DecodeString(p[1])
			if err != nil {
				return nil, fmt.Errorf("value of %q: %w", p[0], err)
			}
			pairs = append(pairs, zapcodec.Pair{Name: []byte(p[0]), Value: value})
		}
	}
	return pairs, nil
}

// encodeRPCStream writes the bytes of a stream message without its prefix.
func encodeRPCStream(kind string, raw json.RawMessage) ([]byte, error) {
	var v rpcStreamJSON
	if err := unmarshalKnown(raw, &v); err != nil {
		return nil, err
	}
	framed, err := zapcodec.AppendStreamFrame(nil, rpcDirections[kind], v.Promise, v.Payload)
	if err != nil {
		return nil, err
	}
	return framed[zapcodec.FramingRPC.PrefixLen():], nil
}

// encodeMessage writes a header before the data; the hexdump is for people and
// not read.
func encodeMessage(raw json.RawMessage) ([]byte, error) {
	v := messageJSON{Version: zapcodec.Version1, Root: zapcodec.HeaderLen}
	if err := unmarshalKnown(raw, &v); err != nil {
		return nil, err
	}
	flags := v.Flags
	if flags>>8 == 0 {
		flags |= uint16(v.Type) << 8
	}
	return zapcodec.AppendMessage(nil, zapcodec.Header{Version: v.Version, Flags: flags, Root: v.Root, Size: v.Size}, v.Data)
}
