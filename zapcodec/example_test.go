package zapcodec_test

import (
	"errors"
	"fmt"

	"github.com/hanzoai/pqgw/zapcodec"
)

func ExampleRequest() {
	request := zapcodec.Request{
		Method: []byte("POST"), Target: []byte("/v1/chat"), Proto: []byte("HTTP/1.1"),
		Headers: []zapcodec.Pair{{Name: []byte("Host"), Value: []byte("api.example.com")}},
		Body:    []byte("{}"),
	}
	frame, err := request.Append(nil, 0)
	if err != nil {
		fmt.Println(err)
		return
	}

	var view zapcodec.RequestView
	if err := view.Parse(frame); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s %s %s\n", view.Method(), view.Target(), view.Body())
	for name, value := range view.Headers().All() {
		fmt.Printf("%s: %s\n", name, value)
	}
	// Output:
	// POST /v1/chat {}
	// Host: api.example.com
}

func ExampleEncoder() {
	var e zapcodec.Encoder
	e.Response(nil, 0, 404, []byte("Not Found"), []byte("HTTP/1.1"))
	e.Field([]byte("Content-Type"), []byte("text/plain"))
	e.Field([]byte("X-Note"), []byte("two\r\nlines"))
	e.Body([]byte("nothing here"))
	_, err := e.Finish()
	fmt.Println(err)
	fmt.Println(errors.Is(err, zapcodec.ErrValue), errors.Is(err, zapcodec.ErrGrammar))
	// Output:
	// zap frame: headers at byte 115: the value of "X-Note" holds CR, LF or NUL
	// true true
}

func ExampleFraming_Next() {
	answer := zapcodec.Response{Status: 204}
	stream, err := answer.Append(nil, zapcodec.Prefix)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, atHand := range []int{3, 20, len(stream)} {
		n, err := zapcodec.FramingHTTP.Next(stream[:atHand], zapcodec.DefaultLimit)
		if err != nil {
			fmt.Println(err)
			return
		}
		if n == 0 || n > atHand {
			fmt.Println("more bytes are needed")
			continue
		}
		frame, rest := zapcodec.FramingHTTP.Cut(stream[:atHand], n)
		kind, err := zapcodec.FrameType(frame.Bytes)
		fmt.Println(kind == zapcodec.TypeResponse, len(rest), err)
	}
	// Output:
	// more bytes are needed
	// more bytes are needed
	// true 0 <nil>
}
