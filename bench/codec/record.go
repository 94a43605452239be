// Package codec compares ways to put a record on the wire: ZAP, and the JSON
// encoders that a Go service would use instead. The record is a blockchain
// balance query and its answer; both are encoded and decoded by all, and all
// carry the same values.
package codec

import (
	"encoding/hex"
	"fmt"
)

// Request asks for the balance of an account at a block.
type Request struct {
	ID      uint64
	Block   uint64
	Method  []byte // aliases the frame when ZAP decoded it
	Account []byte // 20 bytes; aliases the frame when ZAP decoded it
}

// Response answers a Request.
type Response struct {
	ID        uint64
	Balance   uint64
	Nonce     uint64
	BlockHash []byte // 32 bytes; aliases the frame when ZAP decoded it
}

// RequestJSON is Request as JSON carries it: binary fields as 0x-hex strings.
// Turning them into bytes is not part of what is measured.
type RequestJSON struct {
	ID      uint64 `json:"id"`
	Block   uint64 `json:"block"`
	Method  string `json:"method"`
	Account string `json:"account"`
}

// ResponseJSON is Response as JSON carries it.
type ResponseJSON struct {
	ID        uint64 `json:"id"`
	Balance   uint64 `json:"balance"`
	Nonce     uint64 `json:"nonce"`
	BlockHash string `json:"blockHash"`
}

// JSON returns the request with its binary field as a string.
func (r Request) JSON() RequestJSON {
	return RequestJSON{ID: r.ID, Block: r.Block, Method: string(r.Method), Account: hex0x(r.Account)}
}

// JSON returns the response with its binary field as a string.
func (r Response) JSON() ResponseJSON {
	return ResponseJSON{ID: r.ID, Balance: r.Balance, Nonce: r.Nonce, BlockHash: hex0x(r.BlockHash)}
}

// Binary returns the request with its hex string decoded.
func (r RequestJSON) Binary() (Request, error) {
	account, err := unhex0x(r.Account)
	if err != nil {
		return Request{}, fmt.Errorf("account: %w", err)
	}
	return Request{ID: r.ID, Block: r.Block, Method: []byte(r.Method), Account: account}, nil
}

// Binary returns the response with its hex string decoded.
func (r ResponseJSON) Binary() (Response, error) {
	hash, err := unhex0x(r.BlockHash)
	if err != nil {
		return Response{}, fmt.Errorf("blockHash: %w", err)
	}
	return Response{ID: r.ID, Balance: r.Balance, Nonce: r.Nonce, BlockHash: hash}, nil
}

func hex0x(b []byte) string { return "0x" + hex.EncodeToString(b) }

func unhex0x(s string) ([]byte, error) {
	if len(s) < 2 || s[:2] != "0x" {
		return nil, fmt.Errorf("%q does not begin with 0x", s)
	}
	return hex.DecodeString(s[2:])
}

// The values that every encoder is measured with: those of the wire's vectors.
var (
	SampleRequest = Request{
		ID: 1, Block: 68943, Method: []byte("eth_getBalance"),
		Account: mustHex("deadbeef00112233445566778899aabbccddeeff"),
	}
	SampleResponse = Response{
		ID: 1, Balance: 1_000_000_000_000_000_000, Nonce: 42,
		BlockHash: mustHex("0123456789abcdeffedcba98765432100f1e2d3c4b5a69788796a5b4c3d2e1f0"),
	}
)

func mustHex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err) // a constant of this file is wrong
	}
	return b
}
