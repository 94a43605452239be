package calls

import (
	"github.com/hanzoai/pqgw/bench/codec"
	"github.com/hanzoai/pqgw/bench/load"
)

// arm is a way to make the call.
type arm struct {
	by, security, listener string
	load.Work
}

const (
	inClear = "in the clear"
	overTLS = "over TLS"
	zapPath = "/zap"
)

// arms are ZAP's and those of each JSON library, in the clear and over TLS, and
// each library once more behind fasthttp.
func arms(root []byte) []arm {
	var out []arm
	add := func(by, security, listener, transport string, c load.Call) {
		out = append(out, arm{by, security, listener, load.Work{Transport: transport, Root: root, Group: load.Group, Workers: workers, Call: &c}})
	}
	request, _ := codec.AppendRequest(nil, &codec.SampleRequest)
	answer, _ := codec.AppendResponse(nil, &codec.SampleResponse)
	call := load.Call{Path: zapPath, Body: request, Answer: answer}
	add(zap, inClear, "zap", "zap", call)
	add(zap, overTLS, "tls", "zap+tls", call)
	for _, j := range codec.JSONCodecs() {
		q, s := codec.SampleRequest.JSON(), codec.SampleResponse.JSON()
		request, _ := j.Marshal(&q)
		answer, _ := j.Marshal(&s)
		call := load.Call{Path: "/" + j.Name, Body: request, Answer: answer}
		add(j.Name, inClear, "clear", "h1 clear", call)
		add(j.Name, overTLS, "tls", "h1", call)
		add(j.Name+" behind fasthttp", inClear, "fasthttp", "h1 clear", call)
	}
	return out
}
