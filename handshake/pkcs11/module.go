//go:build pkcs11

package pkcs11

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	p11 "github.com/miekg/pkcs11"
)

const (
	// restartPause is the least time between two new beginnings of a module: all
	// handshakes that fail at once are to cause one.
	restartPause = 250 * time.Millisecond
	// closePatience bounds the wait for calls into the module at the end. A module that
	// hangs is then left as it is.
	closePatience = 5 * time.Second
)

// modules are the libraries of this process. A library knows one C_Initialize and one
// login per token for the whole of a process, so all who use it share it. It
// stays loaded once it is: many do not survive dlclose.
var modules = struct {
	sync.Mutex
	by map[string]*module
	// refused are PINs that tokens did not take, by the hash of module, token and PIN.
	refused sync.Map
}{by: map[string]*module{}}

// module is a loaded library.
type module struct {
	path string
	ctx  *p11.Ctx

	// mu is held for reading by all calls into the library, and for writing by
	// who begins anew with it.
	mu         sync.RWMutex
	up         bool // between C_Initialize and C_Finalize
	generation int  // counts C_Initialize and logouts; handles of another one mean nothing
	begun      time.Time
	tokens     map[string]*token // by what names them
}

// load gives the module of a path. It is called with modules locked.
func load(path string) (*module, error) {
	if m := modules.by[path]; m != nil {
		return m, nil
	}
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	ctx := p11.New(path)
	if ctx == nil {
		return nil, errors.New("it is no shared library that can be loaded here, or has no C_GetFunctionList")
	}
	m := &module{path: path, ctx: ctx, tokens: map[string]*token{}}
	modules.by[path] = m
	return m, nil
}

// begin initialises the library where it is not. It is called with mu held for
// writing.
func (m *module) begin() error {
	if m.up {
		return nil
	}
	m.begun = time.Now()
	if err := m.ctx.Initialize(); err != nil && !is(err, p11.CKR_CRYPTOKI_ALREADY_INITIALIZED) {
		return err
	}
	m.up = true
	m.generation++
	return nil
}

// end gives the library back what begin took.
func (m *module) end() {
	if m.up {
		m.up = false
		_ = m.ctx.Finalize() // what it says at its end helps nobody
	}
}

// again begins anew after handles have turned out to be worth nothing. Some libraries
// notice only then that a token is back. It is called with mu held for writing.
func (m *module) again() error {
	m.end()
	for _, t := range m.tokens {
		t.forget()
	}
	return m.begin()
}

// restart is again for who found handles of this generation void.
func (m *module) restart(generation int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.generation == generation && time.Since(m.begun) >= restartPause && len(m.tokens) > 0 {
		_ = m.again() // else who comes next tries again
	}
}

// release ends one use of a token, and the library's work with the last one.
func (m *module) release(t *token) {
	modules.Lock()
	defer modules.Unlock()
	if t.users--; t.users > 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t.close()
	delete(m.tokens, t.key)
	if len(m.tokens) == 0 {
		m.end()
	}
}

// within runs what calls into a module and waits no longer than d for its end: a
// module that hangs must not take the gateway with it. It reports whether the end came.
func within(d time.Duration, use func()) bool {
	ended := make(chan struct{})
	go func() { // ends when the module answers
		defer close(ended)
		use()
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
		return false
	}
}

// is tells whether err is one of the module's return values.
func is(err error, codes ...p11.Error) bool {
	var code p11.Error
	if !errors.As(err, &code) {
		return false
	}
	for _, c := range codes {
		if c == code {
			return true
		}
	}
	return false
}

// pinHash stands for a PIN that a token refused.
func pinHash(m *module, key, pin string) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q", m.path, key, pin))
}
