package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// zapPair is a field as JSON carries it: name and value in hex.
type zapPair [2]string

// hexBytes is bytes that JSON carries as hex.
type hexBytes []byte

// MarshalJSON writes the bytes as a string of hex digits.
func (h hexBytes) MarshalJSON() ([]byte, error) {
	return json.Marshal(hex.EncodeToString(h))
}

// UnmarshalJSON reads a string of hex digits.
func (h *hexBytes) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	raw, err := hex.DecodeString(s)
	if err != nil {
		return fmt.Errorf("%q: %w", s, err)
	}
	*h = raw
	return nil
}

// The JSON forms of frames. Kind is written only where the frames of one
// stream, or --kind auto, leave it open.
type (
	requestJSON struct {
		Kind      string    `json:"kind,omitempty"`
		Method    string    `json:"method"`
		Target    string    `json:"target"`
		TargetHex hexBytes  `json:"target_hex,omitempty"` // when the target is not UTF-8
		Proto     string    `json:"proto"`
		Headers   []zapPair `json:"headers"`
		Body      hexBytes  `json:"body_hex"`
		Trailers  []zapPair `json:"trailers"`
		vectorPairs
	}
	responseJSON struct {
		Kind      string    `json:"kind,omitempty"`
		Status    int       `json:"status"`
		Reason    string    `json:"reason"`
		ReasonHex hexBytes  `json:"reason_hex,omitempty"` // when the reason is not UTF-8
		Proto     string    `json:"proto"`
		Headers   []zapPair `json:"headers"`
		Body      hexBytes  `json:"body_hex"`
		Trailers  []zapPair `json:"trailers"`
		vectorPairs
	}
	dataJSON struct {
		Kind  string   `json:"kind,omitempty"`
		Chunk hexBytes `json:"chunk_hex"`
	}
	endJSON struct {
		Kind     string    `json:"kind,omitempty"`
		Trailers []zapPair `json:"trailers"`
		vectorPairs
	}
	rpcRequestJSON struct {
		Kind    string   `json:"kind,omitempty"`
		Method  uint32   `json:"method"`
		Promise uint32   `json:"promise"`
		Target  uint32   `json:"target"`
		Cap     hexBytes `json:"cap_hex"`
		Payload hexBytes `json:"payload_hex"`
	}
	rpcResponseJSON struct {
		Kind    string   `json:"kind,omitempty"`
		Status  uint32   `json:"status"`
		Promise uint32   `json:"promise"`
		Body    hexBytes `json:"body_hex"`
	}
	rpcStreamJSON struct {
		Kind    string   `json:"kind"`
		Promise uint32   `json:"promise"`
		Payload hexBytes `json:"payload_hex"`
	}
	messageJSON struct {
		Kind    string   `json:"kind,omitempty"`
		Version uint16   `json:"version"`
		Flags   uint16   `json:"flags"` // the whole word, the type in its high byte
		Type    uint8    `json:"type"`
		Root    uint32   `json:"root"`
		Size    uint32   `json:"size"`
		Fixed   []string `json:"root_hexdump"` // the root's fixed section, for people
		Data    hexBytes `json:"data_hex"`     // all that follows the header
	}
)

// vectorPairs are other names for headers and trailers, those of the wire's
// vectors, which encode takes too.
type vectorPairs struct {
	VectorHeaders  []zapPair `json:"headers_name_valuehex,omitempty"`
	VectorTrailers []zapPair `json:"trailers_name_valuehex,omitempty"`
}

// jsonText splits bytes into what JSON can carry as text and what it cannot.
func jsonText(b []byte) (string, hexBytes) {
	if utf8.Valid(b) {
		return string(b), nil
	}
	return "", hexBytes(b)
}

// rawText undoes jsonText.
func rawText(s string, h hexBytes) []byte {
	if len(h) != 0 {
		return h
	}
	return []byte(s)
}
