package load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/hanzoai/pqgw/bench/identity"
	"github.com/hanzoai/pqgw/exchange"
)

// worker asks one request after the other.
type worker struct {
	conn exchange.ClientConn
	work Work
	x    exchange.Exchange
	body *exchange.Bytes // nil for downloads
	path []byte
	want int64 // bytes of the answer
	got  []byte
}

func newWorker(c exchange.ClientConn, w Work) *worker {
	k := &worker{conn: c, work: w, path: []byte(Path(w.Size)), want: int64(w.Size)}
	if w.Upload {
		k.body = exchange.NewBytes(pattern()[:w.Size])
		k.want = int64(len(strconv.Itoa(w.Size)))
	}
	if w.Call != nil {
		k.path, k.body, k.want = []byte(w.Call.Path), exchange.NewBytes(w.Call.Body), int64(len(w.Call.Answer))
	}
	return k
}

var (
	methodGet, methodPost = []byte("GET"), []byte("POST")
	authority             = []byte(identity.ServerName)
)

// ask makes one exchange. compare lets the far end of the body compare it.
func (k *worker) ask(compare bool) error {
	call, err := k.conn.Call()
	if err != nil {
		return err
	}
	err = k.exchange(call, compare)
	if reusable := call.Finish(); err == nil && !reusable {
		err = errors.New("the connection cannot be used again")
	}
	return err
}

func (k *worker) exchange(call exchange.Call, compare bool) error {
	if err := k.send(call, compare); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	h := &k.x.Response
	if err := call.ReadHead(h); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if k.work.Call != nil {
		return k.checkCall(h.Status, call.Body())
	}
	// What an upload is answered with is not cut from the pattern.
	n, err := drain(call.Body(), compare && !k.work.Upload)
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if h.Status != 200 || n != k.want {
		return fmt.Errorf("status %d with %d bytes, wanted 200 with %d", h.Status, n, k.want)
	}
	return nil
}

// checkCall compares an answer with the one that must come.
func (k *worker) checkCall(status int, body exchange.Source) error {
	k.got = k.got[:0]
	for body != nil {
		piece, err := body.Next()
		k.got = append(k.got, piece...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
	}
	if status != 200 || !bytes.Equal(k.got, k.work.Call.Answer) {
		return fmt.Errorf("status %d, %w: %.100q", status, errDiffers, k.got)
	}
	return nil
}

func (k *worker) send(call exchange.Call, compare bool) error {
	q := &k.x.Request
	q.Reset(nil)
	q.Length = -1
	q.SetMethod(methodGet)
	q.SetTarget(k.path)
	if compare && k.work.Call == nil {
		q.SetTarget([]byte(Path(k.work.Size) + verify))
	}
	q.SetAuthority(authority)
	q.SetScheme([]byte("https"))
	timeouts := exchange.Timeouts{FirstByte: patience, Idle: patience}
	if k.body == nil {
		return call.Send(&k.x, nil, timeouts)
	}
	q.SetMethod(methodPost)
	k.body.Rewind()
	q.Length = k.body.Length()
	return call.Send(&k.x, k.body, timeouts)
}
