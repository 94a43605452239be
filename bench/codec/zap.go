package codec

import "github.com/hanzoai/pqgw/zapcodec"

// The schema of the request: each field is named once, its offset computed.
var (
	requestSchema  = zapcodec.NewSchema("getBalance request")
	requestID      = requestSchema.U64("id")
	requestBlock   = requestSchema.U64("block")
	requestMethod  = requestSchema.Text("method")
	requestAccount = requestSchema.Bytes("account")
)

// The schema of the response.
var (
	responseSchema  = zapcodec.NewSchema("getBalance response")
	responseID      = responseSchema.U64("id")
	responseBalance = responseSchema.U64("balance")
	responseNonce   = responseSchema.U64("nonce")
	responseHash    = responseSchema.Bytes("blockHash")
)

// AppendRequest appends r as a ZAP message to dst.
func AppendRequest(dst []byte, r *Request) ([]byte, error) {
	b := requestSchema.Build(dst)
	root := requestSchema.Root(&b)
	requestID.Set(root, r.ID)
	requestBlock.Set(root, r.Block)
	requestMethod.Set(root, r.Method)
	requestAccount.Set(root, r.Account)
	return b.Finish(root)
}

// ParseRequest reads a ZAP message into r, whose slices then alias frame.
func ParseRequest(frame []byte, r *Request) error {
	rec, err := requestSchema.Open(frame)
	if err != nil {
		return err
	}
	method, ok1 := requestMethod.Get(rec)
	account, ok2 := requestAccount.Get(rec)
	if !ok1 || !ok2 {
		return requestSchema.Check(rec)
	}
	r.ID, r.Block, r.Method, r.Account = requestID.Get(rec), requestBlock.Get(rec), method, account
	return nil
}

// AppendResponse appends r as a ZAP message to dst.
func AppendResponse(dst []byte, r *Response) ([]byte, error) {
	b := responseSchema.Build(dst)
	root := responseSchema.Root(&b)
	responseID.Set(root, r.ID)
	responseBalance.Set(root, r.Balance)
	responseNonce.Set(root, r.Nonce)
	responseHash.Set(root, r.BlockHash)
	return b.Finish(root)
}

// ParseResponse reads a ZAP message into r, whose slices then alias frame.
func ParseResponse(frame []byte, r *Response) error {
	rec, err := responseSchema.Open(frame)
	if err != nil {
		return err
	}
	hash, ok := responseHash.Get(rec)
	if !ok {
		return responseSchema.Check(rec)
	}
	r.ID, r.Balance, r.Nonce, r.BlockHash = responseID.Get(rec), responseBalance.Get(rec), responseNonce.Get(rec), hash
	return nil
}
