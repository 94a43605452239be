//go:build pkcs11

package pkcs11

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	p11 "github.com/miekg/pkcs11"
)

const (
	// maxSessions bounds the signatures that one token makes at a time; others wait.
	maxSessions  = 16
	firstPause   = 10 * time.Millisecond // before a call is tried again
	longestPause = 250 * time.Millisecond
)

// token is a token of a module that is logged in to, with its open sessions.
type token struct {
	m     *module
	key   string // in the module's tokens, and for messages
	at    Settings
	users int           // modules guards it
	slots chan struct{} // of calls at a time

	mu       sync.Mutex
	pin      string
	loggedIn bool
	closed   bool // nobody uses it any more
	slot     uint
	anchor   p11.SessionHandle // open as long as loggedIn, and used for nothing else
	idle     []p11.SessionHandle
}

// session is what a call has of the token; it is the call's alone.
type session struct {
	*p11.Ctx
	handle     p11.SessionHandle
	generation int // of the module: object handles of another one mean nothing
}

// acquire gives the token that the settings name, logged in to by their PIN.
func acquire(s Settings) (*token, error) {
	modules.Lock()
	defer modules.Unlock()
	m, err := load(s.Module)
	if err != nil {
		return nil, &Error{Token: s.String(), Kind: ErrModule, Err: fmt.Errorf("%s: %w", s.Module, err)}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.begin(); err != nil {
		return nil, &Error{Token: s.String(), Kind: ErrModule, Err: fmt.Errorf("%s: %w", s.Module, err)}
	}
	t := m.tokens[s.String()]
	if t == nil {
		t = &token{m: m, key: s.String(), at: s}
	}
	err = t.begin(s.PIN)
	if gone(err) && len(m.tokens) > 0 { // since others began
		if err = m.again(); err == nil {
			err = t.begin(s.PIN)
		}
	}
	if err != nil {
		if len(m.tokens) == 0 {
			m.end()
		}
		return nil, err
	}
	m.tokens[t.key] = t
	t.users++
	return t, nil
}

// begin logs in by a PIN, be it another than before: a login that stands would say
// nothing of whether it is right. It is called with the module's mu held for writing.
func (t *token) begin(pin string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.loggedIn && pin == t.pin {
		return nil
	}
	before, used := t.pin, t.users > 0
	if t.loggedIn {
		_ = t.m.ctx.Logout(t.anchor) // then the login says so
		t.closeAll()
		t.m.generation++ // handles of private objects end with the login
	}
	t.pin = pin
	err := t.login()
	if err != nil && used {
		t.pin = before
		_ = t.login() // else the next call says why not
	}
	return err
}

// take gives a session, an open one or a new one. It is called with the module's mu
// held for reading.
func (t *token) take() (p11.SessionHandle, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return 0, &Error{Token: t.key, Kind: ErrOperation, Err: net.ErrClosed}
	}
	if !t.loggedIn {
		if err := t.login(); err != nil {
			return 0, err
		}
	}
	if n := len(t.idle); n > 0 {
		sh := t.idle[n-1]
		t.idle = t.idle[:n-1]
		return sh, nil
	}
	sh, err := t.m.ctx.OpenSession(t.slot, p11.CKF_SERIAL_SESSION)
	if err != nil {
		return 0, t.fail(err)
	}
	return sh, nil
}

func (t *token) give(sh p11.SessionHandle) {
	t.mu.Lock()
	t.idle = append(t.idle, sh) // release waits for the call that gives it
	t.mu.Unlock()
}

// forget drops what a new beginning of the module has made void.
func (t *token) forget() {
	t.mu.Lock()
	t.idle, t.loggedIn = nil, false
	t.mu.Unlock()
}

func (t *token) close() {
	t.mu.Lock()
	t.closeAll()
	t.closed = true
	t.mu.Unlock()
}

func (t *token) closeAll() {
	for _, sh := range append(t.idle, t.anchor) {
		_ = t.m.ctx.CloseSession(sh)
	}
	t.idle, t.loggedIn = nil, false
}

func (t *token) find() (uint, error) {
	slots, err := t.m.ctx.GetSlotList(true)
	if err != nil {
		return 0, t.fail(err)
	}
	var labels []string
	var found []uint
	for _, slot := range slots {
		info, err := t.m.ctx.GetTokenInfo(slot)
		if err != nil || info.Flags&p11.CKF_TOKEN_INITIALIZED == 0 {
			continue
		}
		label := strings.TrimRight(info.Label, " \x00")
		labels = append(labels, fmt.Sprintf("%q in slot %d", label, slot))
		if t.at.Token != "" && label == t.at.Token || t.at.Token == "" && slot == t.at.Slot {
			found = append(found, slot)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return 0, &Error{Token: t.key, Kind: ErrToken, Err: errors.New("two have this label"), Hint: "name one by its slot"}
	case len(labels) == 0:
		return 0, &Error{Token: t.key, Kind: ErrToken, Hint: "the module shows none at all: is it plugged in, or its server up?"}
	}
	return 0, &Error{Token: t.key, Kind: ErrToken, Hint: "there are " + strings.Join(labels, ", ")}
}

// login looks for the token, which can be in another slot after it was away, and logs in.
// The session that it does so by stays open, since the login ends with the last one.
func (t *token) login() error {
	slot, err := t.find()
	if err != nil {
		return err
	}
	info, err := t.m.ctx.GetTokenInfo(slot)
	if err != nil {
		return t.fail(err)
	}
	sh, err := t.m.ctx.OpenSession(slot, p11.CKF_SERIAL_SESSION)
	if err != nil {
		return t.fail(err)
	}
	if info.Flags&p11.CKF_LOGIN_REQUIRED != 0 {
		if err := t.present(sh, info.Flags); err != nil {
			_ = t.m.ctx.CloseSession(sh)
			return err
		}
	}
	if t.slots == nil {
		t.slots = make(chan struct{}, sessionsOf(info))
	}
	t.slot, t.anchor, t.loggedIn = slot, sh, true
	return nil
}

// sessionsOf is how many sessions there may be besides the one that holds the login.
// The token's limit can be unknown (all bits set) or none (0).
func sessionsOf(info p11.TokenInfo) int {
	if n := info.MaxSessionCount; n > 1 && n <= maxSessions {
		return int(n) - 1
	}
	return maxSessions
}

// present tries the PIN once, and never one that the token has refused, nor where a
// wrong one would be the last.
func (t *token) present(sh p11.SessionHandle, flags uint) error {
	hash := pinHash(t.m, t.key, t.pin)
	refuse := func(err error, hint string) error { return &Error{Token: t.key, Kind: ErrPIN, Err: err, Hint: hint} }
	_, known := modules.refused.Load(hash)
	switch {
	case t.pin == "":
		return refuse(errors.New("it wants one, and none is given"), "")
	case flags&p11.CKF_USER_PIN_LOCKED != 0:
		return refuse(p11.Error(p11.CKR_PIN_LOCKED), "the security officer has to set another")
	case known:
		return refuse(p11.Error(p11.CKR_PIN_INCORRECT), "it was refused before and is not tried again, so that the token does not lock itself: correct it, or restart")
	case flags&p11.CKF_USER_PIN_FINAL_TRY != 0:
		return refuse(errors.New("a wrong one would be the last"), "log in once by another tool, which gives the token its tries back")
	}
	err := t.m.ctx.Login(sh, p11.CKU_USER, t.pin)
	switch {
	case err == nil || is(err, p11.CKR_USER_ALREADY_LOGGED_IN):
		return nil
	case is(err, p11.CKR_PIN_INCORRECT, p11.CKR_PIN_INVALID, p11.CKR_PIN_LEN_RANGE, p11.CKR_PIN_LOCKED, p11.CKR_PIN_EXPIRED, p11.CKR_USER_PIN_NOT_INITIALIZED):
		modules.refused.Store(hash, nil)
		return refuse(err, "it is not tried again, so that the token does not lock itself")
	}
	return t.fail(err)
}

// fail wraps what the module says.
func (t *token) fail(err error) error {
	return &Error{Token: t.key, Kind: ErrOperation, Err: err}
}

// gone tells whether another try after a new beginning may go better: the token, or
// what stands behind the module, went away.
func gone(err error) bool {
	return errors.Is(err, ErrToken) || errors.Is(err, errDown) || is(err,
		p11.CKR_DEVICE_ERROR, p11.CKR_DEVICE_REMOVED, p11.CKR_TOKEN_NOT_PRESENT, p11.CKR_TOKEN_NOT_RECOGNIZED, p11.CKR_SLOT_ID_INVALID,
		p11.CKR_SESSION_CLOSED, p11.CKR_SESSION_HANDLE_INVALID, p11.CKR_USER_NOT_LOGGED_IN,
		p11.CKR_OBJECT_HANDLE_INVALID, p11.CKR_KEY_HANDLE_INVALID, p11.CKR_CRYPTOKI_NOT_INITIALIZED)
}

var errDown = errors.New("the module could not be initialised again")

// call runs use in a session of its own, again after a new beginning as long as the
// token is gone and ctx allows. What hangs in the module is left to itself at the
// end of ctx; it then keeps its slot.
func call[T any](ctx context.Context, t *token, use func(session) (T, error)) (T, error) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		value, err := attempt(ctx, t, use)
		if err == nil || !gone(err) {
			return value, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return value, err
		}
	}
}

// attempt is one try of call.
func attempt[T any](ctx context.Context, t *token, use func(session) (T, error)) (value T, err error) {
	if err := ctx.Err(); err != nil {
		return value, &Error{Token: t.key, Kind: ErrBusy, Err: err}
	}
	select {
	case t.slots <- struct{}{}:
	case <-ctx.Done():
		return value, &Error{Token: t.key, Kind: ErrBusy, Hint: fmt.Sprintf("%d signatures are under way", maxSessions)}
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() { // ends when the module answers
		defer func() { <-t.slots }()
		value, generation, err := once(t, use)
		if gone(err) {
			t.m.restart(generation)
		}
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return value, &Error{Token: t.key, Kind: ErrBusy, Err: ctx.Err()}
	}
}

func once[T any](t *token, use func(session) (T, error)) (value T, generation int, err error) {
	t.m.mu.RLock()
	defer t.m.mu.RUnlock()
	generation = t.m.generation
	if !t.m.up {
		return value, generation, &Error{Token: t.key, Kind: ErrModule, Err: errDown}
	}
	sh, err := t.take()
	if err != nil {
		return value, generation, err
	}
	value, err = use(session{t.m.ctx, sh, generation})
	if err == nil {
		t.give(sh)
		return value, generation, nil
	}
	_ = t.m.ctx.CloseSession(sh) // an operation may be half done in it
	var known *Error
	if !errors.As(err, &known) {
		err = t.fail(err)
	}
	return value, generation, err
}
