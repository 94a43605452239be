package codec

// Arm is one operation by one codec. Loop does it n times and fails where it
// does; it keeps nothing from one call to the next, and is for one goroutine
// at a time in the whole program.
type Arm struct {
	What  string // "decode", "encode" (the request), "decode-response", "encode-response"
	Codec string // "zap", or the name of a JSONCodec
	Loop  func(n int) error
}

// Arms are all operations by all codecs, ZAP's first.
func Arms() []Arm {
	var out []Arm
	add := func(what, codec string, loop func(n int) error) { out = append(out, Arm{what, codec, loop}) }
	zapArms(add)
	for _, c := range JSONCodecs() {
		jsonArms(c, add)
	}
	return out
}

// sink keeps what decoders made, so that none of it can be left out:
// every field goes into it.
var sink struct {
	n uint64
	b int
}

// measure takes a named loop of n operations. The loops are written out: a call
// through a function value, or b.Loop's care for what its body made, costs as
// much as ZAP's decoding does.
type measure func(what, codec string, loop func(n int) error)

func zapArms(run measure) {
	buf := make([]byte, 0, 256)
	request, _ := AppendRequest(nil, &SampleRequest)
	response, _ := AppendResponse(nil, &SampleResponse)
	run("decode", "zap", func(n int) error { return decodeRequests(request, n) })
	run("encode", "zap", func(n int) (err error) {
		for i := 0; i < n && err == nil; i++ {
			_, err = AppendRequest(buf, &SampleRequest)
		}
		return err
	})
	run("decode-response", "zap", func(n int) error { return decodeResponses(response, n) })
	run("encode-response", "zap", func(n int) (err error) {
		for i := 0; i < n && err == nil; i++ {
			_, err = AppendResponse(buf, &SampleResponse)
		}
		return err
	})
}

// decodeRequests reads every field from the frame, as a server would.
func decodeRequests(frame []byte, n int) error {
	for range n {
		rec, err := requestSchema.Open(frame)
		if err != nil {
			return err
		}
		method, ok1 := requestMethod.Get(rec)
		account, ok2 := requestAccount.Get(rec)
		if !ok1 || !ok2 {
			return requestSchema.Check(rec)
		}
		sink.n = requestID.Get(rec) + requestBlock.Get(rec)
		sink.b = len(method) + int(method[0]) + len(account) + int(account[0])
	}
	return nil
}

func decodeResponses(frame []byte, n int) error {
	for range n {
		rec, err := responseSchema.Open(frame)
		if err != nil {
			return err
		}
		hash, ok := responseHash.Get(rec)
		if !ok {
			return responseSchema.Check(rec)
		}
		sink.n = responseID.Get(rec) + responseBalance.Get(rec) + responseNonce.Get(rec)
		sink.b = len(hash) + int(hash[0])
	}
	return nil
}

func jsonArms(c JSONCodec, run measure) {
	q, s := SampleRequest.JSON(), SampleResponse.JSON()
	request, _ := c.Marshal(&q)
	response, _ := c.Marshal(&s)
	run("decode", c.Name, func(n int) error {
		for range n {
			var r RequestJSON
			if err := c.Unmarshal(request, &r); err != nil {
				return err
			}
			sink.n = r.ID + r.Block
			sink.b = len(r.Method) + int(r.Method[0]) + len(r.Account) + int(r.Account[0])
		}
		return nil
	})
	run("encode", c.Name, func(n int) error { return marshalMany(c, &q, n) })
	run("decode-response", c.Name, func(n int) error {
		for range n {
			var r ResponseJSON
			if err := c.Unmarshal(response, &r); err != nil {
				return err
			}
			sink.n = r.ID + r.Balance + r.Nonce
			sink.b = len(r.BlockHash) + int(r.BlockHash[0])
		}
		return nil
	})
	run("encode-response", c.Name, func(n int) error { return marshalMany(c, &s, n) })
}

func marshalMany(c JSONCodec, v any, n int) error {
	for range n {
		b, err := c.Marshal(v)
		if err != nil {
			return err
		}
		sink.b = len(b)
	}
	return nil
}
