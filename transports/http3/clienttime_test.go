package http3

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/deadline"
)

// The wait for the head is over by then, and that for the next bytes has a limit of its own.
func TestAnUploadThatEndsBehindTheHeadStartsNoWaitForIt(t *testing.T) {
	const firstByte = 300 * time.Millisecond
	addr := theirs(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(firstByte + 4*deadline.Tick) //nolint:forbidigo // a service that takes its time
		_, _ = io.WriteString(w, "late")
	})
	k, err := dialOurs(t, addr).Call()
	if err != nil {
		t.Fatal(err)
	}
	src := &streamed{Source: exchange.NewBytes([]byte("a"))}
	x := asked("POST", "/")
	if err := k.Send(x, src, exchange.Timeouts{FirstByte: firstByte, Idle: time.Minute}); err != nil {
		t.Fatal(err)
	}
	head, read := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(read)
		err := k.ReadHead(&x.Response)
		close(head)
		if err != nil {
			t.Error(err)
			return
		}
		if b, err := io.ReadAll(k.Body()); err != nil || string(b) != "late" {
			t.Errorf("%q, %v", b, err)
		}
	}()
	<-head
	if err := k.SendBody(src); err != nil {
		t.Error(err)
	}
	<-read
	k.Finish()
}
