package zapcodec

import (
	"encoding/binary"
	"strconv"
)

// Statuses of an RPC response.
const (
	RPCOK           = 200
	RPCBadRequest   = 400
	RPCUnauthorized = 401
	RPCForbidden    = 403
	RPCNotFound     = 404
	RPCError        = 500
)

func rpcStatusOK(s uint32) bool {
	switch s {
	case RPCOK, RPCBadRequest, RPCUnauthorized, RPCForbidden, RPCNotFound, RPCError:
		return true
	}
	return false
}

func rpcStatusError(at int, s uint32) error {
	return fail(errRPC, at, "status", strconv.FormatUint(uint64(s), 10)+" is none of 200, 400, 401, 403, 404, 500")
}

// Fixed sections of the RPC envelopes.
const (
	rpcMethod, rpcPromise, rpcTarget, rpcCap, rpcPayload, rpcRequestFixed = 0, 4, 8, 12, 20, 28
	rpcStatus, rpcBody, rpcResponseFixed                                  = 0, 12, 20
)

// RPCRequest is the envelope of a call. When parsed, its slices alias the
// frame.
type RPCRequest struct {
	Method  uint32
	Promise uint32 // the caller's number for the call; its answer carries it
	Target  uint32 // 0: none; else the promise whose answer becomes the payload
	Cap     []byte // the capability presented
	Payload []byte
}

// Size is the length of the envelope in bytes, framing not counted.
func (r *RPCRequest) Size() int { return HeaderLen + rpcRequestFixed + len(r.Cap) + len(r.Payload) }

// AppendRPCRequest appends the envelope to dst, without framing.
func AppendRPCRequest(dst []byte, r *RPCRequest) ([]byte, error) {
	size := r.Size()
	if size > maxMessage {
		return nil, tooLargeToWrite(size)
	}
	dst = appendRPCHeader(dst, size)
	dst = binary.LittleEndian.AppendUint32(dst, r.Method)
	dst = binary.LittleEndian.AppendUint32(dst, r.Promise)
	dst = binary.LittleEndian.AppendUint32(dst, r.Target)
	dst = binary.LittleEndian.AppendUint64(dst, cell(rpcRequestFixed-rpcCap, len(r.Cap)))
	dst = binary.LittleEndian.AppendUint64(dst, cell(rpcRequestFixed-rpcPayload+len(r.Cap), len(r.Payload)))
	dst = append(dst, r.Cap...)
	return append(dst, r.Payload...), nil
}

// ParseRPCRequest reads a framed envelope into r.
func ParseRPCRequest(frame []byte, r *RPCRequest) error {
	root, err := rpcRoot(frame, rpcRequestFixed)
	if err != nil {
		return err
	}
	r.Method = binary.LittleEndian.Uint32(frame[root+rpcMethod:])
	r.Promise = binary.LittleEndian.Uint32(frame[root+rpcPromise:])
	r.Target = binary.LittleEndian.Uint32(frame[root+rpcTarget:])
	cp, err := span(frame, root+rpcCap, "cap")
	if err != nil {
		return err
	}
	payload, err := span(frame, root+rpcPayload, "payload")
	if err != nil {
		return err
	}
	r.Cap, r.Payload = cp.Of(frame), payload.Of(frame)
	return nil
}

// RPCResponse is the envelope of an answer. When parsed, its slice aliases the
// frame.
type RPCResponse struct {
	Status  uint32 // one of the RPC statuses
	Promise uint32 // that of the call
	Body    []byte
}

// Size is the length of the envelope in bytes, framing not counted.
func (r *RPCResponse) Size() int { return HeaderLen + rpcResponseFixed + len(r.Body) }

// AppendRPCResponse appends the envelope to dst, without framing.
func AppendRPCResponse(dst []byte, r *RPCResponse) ([]byte, error) {
	size := r.Size()
	if size > maxMessage {
		return nil, tooLargeToWrite(size)
	}
	if !rpcStatusOK(r.Status) {
		return nil, rpcStatusError(HeaderLen, r.Status)
	}
	dst = appendRPCHeader(dst, size)
	dst = binary.LittleEndian.AppendUint32(dst, r.Status)
	dst = binary.LittleEndian.AppendUint32(dst, r.Promise)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint64(dst, cell(rpcResponseFixed-rpcBody, len(r.Body)))
	return append(dst, r.Body...), nil
}

// ParseRPCResponse reads a framed envelope into r.
func ParseRPCResponse(frame []byte, r *RPCResponse) error {
	root, err := rpcRoot(frame, rpcResponseFixed)
	if err != nil {
		return err
	}
	r.Status = binary.LittleEndian.Uint32(frame[root+rpcStatus:])
	r.Promise = binary.LittleEndian.Uint32(frame[root+rpcPromise:])
	if !rpcStatusOK(r.Status) {
		return rpcStatusError(int(root), r.Status)
	}
	body, err := span(frame, root+rpcBody, "body")
	if err != nil {
		return err
	}
	r.Body = body.Of(frame)
	return nil
}

func appendRPCHeader(dst []byte, size int) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, magic|Version2<<32|TypeRPC<<56)
	return binary.LittleEndian.AppendUint64(dst, HeaderLen|uint64(size)<<32)
}

// rpcRoot checks a framed envelope as far as its fixed section.
func rpcRoot(frame []byte, fixed uint64) (uint64, error) {
	if !sound(frame) {
		return 0, openError(frame)
	}
	if frame[7] != TypeRPC {
		return 0, typeError(frame[7], "an RPC envelope")
	}
	root := binary.LittleEndian.Uint32(frame[8:])
	if uint64(root)+fixed > uint64(len(frame)) {
		return 0, fixedError("root", root, int(fixed), len(frame))
	}
	return uint64(root), nil
}
