package layers

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/hanzoai/pqgw/bench/identity"
	"github.com/hanzoai/pqgw/zapcodec"
)

// answerBody is the 1 KiB that every program answers with.
var answerBody = strings.Repeat("0123456789abcdef", 64)

// fields of the request are those of an API's client.
var fields = []zapcodec.Pair{
	{Name: []byte("Host"), Value: []byte(identity.ServerName)},
	{Name: []byte("Accept"), Value: []byte("application/json")},
	{Name: []byte("Accept-Encoding"), Value: []byte("gzip, br")},
	{Name: []byte("Authorization"), Value: []byte("Bearer 0123456789abcdef0123456789abcdef0123456789abcdef")},
	{Name: []byte("User-Agent"), Value: []byte("bench/1.0")},
	{Name: []byte("X-Tenant"), Value: []byte("42")},
	{Name: []byte("X-Internal"), Value: []byte("to be removed")},
}

// request is the message that is sent, with the length before it.
func request() ([]byte, error) {
	r := zapcodec.Request{Method: []byte("GET"), Target: []byte("/v1/answers/7?full=1"), Headers: fields}
	return r.Append(nil, zapcodec.Prefix)
}

var contentType, plainText = []byte("Content-Type"), []byte("text/plain; charset=utf-8")

// appendAnswer writes the answer as the codec does it for a server.
func appendAnswer(e *zapcodec.Encoder, dst []byte) ([]byte, error) {
	e.Response(dst, zapcodec.Prefix, 200, nil, nil)
	e.Field(contentType, plainText)
	e.Body([]byte(answerBody))
	return e.Finish()
}

// checkAnswer holds an answer to what every program must say.
func checkAnswer(frame []byte, v *zapcodec.ResponseView) error {
	if err := v.Parse(frame); err != nil {
		return err
	}
	if v.Status() != 200 || !bytes.Equal(v.Body(), []byte(answerBody)) {
		return fmt.Errorf("status %d with %d bytes: not the answer", v.Status(), len(v.Body()))
	}
	return nil
}

// checkRequest does with a parsed request what any server must: it looks at
// the method, the target and each field.
func checkRequest(frame []byte, v *zapcodec.RequestView) error {
	if err := v.Parse(frame); err != nil {
		return err
	}
	n := 0
	for p := v.Headers(); p.Next(); {
		n++
	}
	if !bytes.Equal(v.Method(), []byte("GET")) || len(v.Target()) == 0 || n < len(fields)-1 {
		return fmt.Errorf("%s %s with %d fields: not the request", v.Method(), v.Target(), n)
	}
	return nil
}
