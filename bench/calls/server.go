package calls

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/valyala/fasthttp"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/codec"
	"github.com/hanzoai/pqgw/bench/load"
	"github.com/hanzoai/pqgw/exchange"
)

// serverRole is the name of the role that answers calls.
const serverRole = "calls-server"

func init() { bench.RegisterRole(serverRole, openServer) }

func openServer(_ context.Context, settings json.RawMessage) (map[string]bench.Verb, func(), error) {
	var s load.OriginSettings
	if err := json.Unmarshal(settings, &s); err != nil {
		return nil, nil, err
	}
	addrs, end, err := s.Listen(handler{})
	if err != nil {
		return nil, nil, err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(s.Host, "0"))
	if err != nil {
		end()
		return nil, nil, err
	}
	addrs["fasthttp"] = l.Addr().String()
	other := &fasthttp.Server{Handler: serveFast, NoDefaultServerHeader: true, NoDefaultDate: true, CloseOnShutdown: true}
	var wg sync.WaitGroup
	wg.Go(func() { _ = other.Serve(l) }) // ends as the listener closes
	stop := func() {
		_ = other.Shutdown()
		wg.Wait()
		end()
	}
	return map[string]bench.Verb{"addrs": func(context.Context, json.RawMessage) (any, error) { return addrs, nil }}, stop, nil
}

// answer decodes a request and encodes the answer to it, by the codec that the
// path names.
func answer(dst, path, body []byte) ([]byte, error) {
	if string(path) == zapPath {
		return answerZAP(dst, body)
	}
	for _, c := range jsonCodecs {
		if string(path[1:]) == c.Name {
			return answerJSON(c, body)
		}
	}
	return nil, fmt.Errorf("no codec %q", path)
}

var jsonCodecs = codec.JSONCodecs()

var (
	errRequest  = errors.New("not the request")
	wanted      = codec.SampleRequest
	wantedJSON  = codec.SampleRequest.JSON()
	toAnswer    = codec.SampleResponse
	toAnswerAll = codec.SampleResponse.JSON()
)

func answerZAP(dst, body []byte) ([]byte, error) {
	var q codec.Request
	if err := codec.ParseRequest(body, &q); err != nil {
		return nil, err
	}
	if q.Block != wanted.Block || !bytes.Equal(q.Method, wanted.Method) || !bytes.Equal(q.Account, wanted.Account) {
		return nil, errRequest
	}
	s := toAnswer
	s.ID = q.ID
	return codec.AppendResponse(dst, &s)
}

func answerJSON(c codec.JSONCodec, body []byte) ([]byte, error) {
	var q codec.RequestJSON
	if err := c.Unmarshal(body, &q); err != nil {
		return nil, err
	}
	if q.Block != wantedJSON.Block || q.Method != wantedJSON.Method || q.Account != wantedJSON.Account {
		return nil, errRequest
	}
	s := toAnswerAll
	s.ID = q.ID
	return c.Marshal(&s)
}

// buffers for answers; a JSON library brings its own.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}

// handler answers by the gateway's own transports.
type handler struct{}

var _ exchange.Handler = handler{}

// Serve implements exchange.Handler.
func (handler) Serve(x *exchange.Exchange) {
	if !load.Begin(x) {
		return
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	body, err := whole(x.Body)
	var out []byte
	if err == nil {
		out, err = answer((*buf)[:0], x.Request.Target(), body)
	}
	if err != nil {
		x.Response.Status, out = 400, []byte(err.Error())
	}
	_ = x.Responder.Respond(&x.Response, exchange.NewBytes(out)) // the client sees
}

// whole gives a body where it lies, if it has come as a whole.
func whole(body exchange.Source) ([]byte, error) {
	if body == nil {
		return nil, errRequest
	}
	if b, ok := body.Whole(); ok {
		return b, nil
	}
	return io.ReadAll(reader{body})
}

// reader is a body as an io.Reader.
type reader struct{ exchange.Source }

// serveFast answers by fasthttp.
func serveFast(c *fasthttp.RequestCtx) {
	out, err := answer(nil, c.Path(), c.PostBody())
	if err != nil {
		c.Error(err.Error(), fasthttp.StatusBadRequest)
		return
	}
	c.Response.SetBodyRaw(out)
}
