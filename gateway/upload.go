package gateway

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/hanzoai/pqgw/exchange"
)

// expectTime is how long a client that sent Expect: 100-continue waits for the
// upstream's word before it is asked for the body all the same (RFC 9110,
// section 10.1.1): many servers never give one.
const expectTime = time.Second

// earlyGrace is how long an upload may go on after its answer has been sent:
// enough for one that was ending, since cutting it costs the connection.
const earlyGrace = 10 * time.Millisecond

var errAnsweredEarly = errors.New("the upstream answered before the request was sent to its end")

// uploader sends the body of an exchange beside the goroutine that reads the
// answer. It is part of a flow and used again with it.
type uploader struct {
	f       *flow
	call    exchange.Call
	src     countedSource
	done    chan struct{} // run has ended
	word    chan bool     // true: send the body; false: do not
	running bool
	begun   bool // the body has been touched; read once run has ended
	waiting bool // run waits for the upstream's word
	timer   *time.Timer

	mu    sync.Mutex // of the client's side while run may ask for the body
	final bool       // no more 1xx
}

func (u *uploader) init(f *flow) {
	u.f = f
	u.done, u.word = make(chan struct{}, 1), make(chan bool, 1)
}

// countedSource remembers what became of the client's body, apart from what
// became of sending it on.
type countedSource struct {
	exchange.Source
	err error
}

func (s *countedSource) Next() ([]byte, error) {
	p, err := s.Source.Next()
	s.note(err)
	return p, err
}

func (s *countedSource) Read(p []byte) (int, error) {
	n, err := s.Source.Read(p)
	s.note(err)
	return n, err
}

func (s *countedSource) note(err error) {
	if err != nil && err != io.EOF { //nolint:errorlint // the end is this value
		s.err = err
	}
}

// start begins to send the body, or to wait for the upstream's word first.
func (u *uploader) start(call exchange.Call) {
	u.call, u.src = call, countedSource{Source: u.f.x.Body}
	u.running, u.begun, u.final = true, false, false
	u.waiting = u.f.x.Request.ExpectContinue
	u.f.g.workers.start(u)
}

// run implements task.
func (u *uploader) run() {
	if !u.waiting || u.await() {
		u.begun = true
		// An upstream that stops reading may have answered: ReadHead finds out.
		if err := u.call.SendBody(&u.src); err != nil && u.src.err != nil {
			u.call.Canceller().Cancel(u.src.err)
		}
	}
	u.done <- struct{}{}
}

// await waits for the upstream's word, or until the client is to be asked anyway.
func (u *uploader) await() bool {
	timer := time.NewTimer(expectTime)
	defer timer.Stop()
	select {
	case send := <-u.word:
		return send
	case <-timer.C:
	}
	return u.ask() == nil
}

// ask tells the client to send its body, unless it has been answered.
func (u *uploader) ask() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.final {
		return errAnsweredEarly
	}
	var h exchange.Head
	h.Reset(nil)
	h.Status = 100
	return u.f.x.Responder.Interim(&h)
}

// proceed passes the upstream's 100 on.
func (u *uploader) proceed() error {
	if !u.running || !u.waiting {
		return nil
	}
	if err := u.ask(); err != nil {
		return err
	}
	u.tell(true)
	return nil
}

func (u *uploader) tell(send bool) {
	select {
	case u.word <- send:
	default: // told already
	}
}

// interim passes another 1xx on.
func (u *uploader) interim(h *exchange.Head) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.f.x.Responder.Interim(h)
}

// answered says that the final answer is about to go out.
func (u *uploader) answered() {
	u.mu.Lock()
	u.final = true
	u.mu.Unlock()
	u.tell(false)
}

// end sees that the upload has ended, cutting it where the exchange is over before
// it. err is what became of the exchange so far; where the client's body was the
// cause of a failure, that is returned in its place.
func (u *uploader) end(err error) error {
	if !u.running {
		return err
	}
	u.running = false
	u.tell(false)
	if !u.ended(err) {
		reason := err
		if reason == nil {
			reason = errAnsweredEarly
		}
		u.call.Canceller().Cancel(reason)
		u.f.x.Body.Close(reason)
		<-u.done
	}
	select {
	case <-u.word:
	default:
	}
	u.call = nil
	if cause := u.src.err; err != nil && cause != nil && !u.f.answered {
		err = blame(cause)
	}
	u.src = countedSource{}
	return err
}

// blame makes the client's fault of what ended its body.
func blame(cause error) error {
	var refusal *exchange.Refusal
	if errors.As(cause, &refusal) || isClientError(cause) {
		return cause
	}
	return &exchange.ClientError{Err: cause}
}

// ended waits for run where it is about to end.
func (u *uploader) ended(err error) bool {
	grace := earlyGrace
	if err != nil {
		grace = earlyGrace / 10
	}
	if u.timer == nil {
		u.timer = time.NewTimer(grace)
	} else {
		u.timer.Reset(grace)
	}
	defer u.timer.Stop()
	select {
	case <-u.done:
		return true
	case <-u.timer.C:
		return false
	}
}
