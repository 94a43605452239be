package handshake

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Pair is a certificate chain and its key, in PEM files.
type Pair struct {
	Cert string // path of the chain, leaf first
	Key  string // path of the private key; may be the same file
}

// FilesOptions are optional.
type FilesOptions struct {
	// Poll is how often the files are looked at besides what the system tells
	// of changes; 0 means 30 s. Network file systems tell nothing.
	Poll time.Duration
	// OnReload is told of each pair that was replaced, and of each that could
	// not be (the old one then stays). It is called from one goroutine at a time.
	OnReload func(Reload)
}

// defaultPoll bounds how long a change goes unnoticed where the system tells nothing.
const defaultPoll = 30 * time.Second

// Reload is the news of one pair of files.
type Reload struct {
	Pair Pair
	Info CertInfo // of what is in use now
	Err  error    // why the new one was not taken; a *[FileError]
}

// FileError is a pair of files that cannot be used.
type FileError struct {
	Pair Pair
	Err  error
}

// Error names the files and what is wrong with them.
func (e *FileError) Error() string {
	return fmt.Sprintf("certificate %s, key %s: %v", e.Pair.Cert, e.Pair.Key, e.Err)
}

// Unwrap is the reason without the files.
func (e *FileError) Unwrap() error { return e.Err }

// Files is a [Source] of PEM files that are reloaded when they change.
type Files struct {
	options FilesOptions
	mu      sync.Mutex // serialises reloads
	pairs   []*loadedPair
	current atomic.Pointer[index]
	watch   *watch
}

// loadedPair is a pair as it was last read.
type loadedPair struct {
	pair   Pair
	cert   *tls.Certificate
	digest [sha256.Size]byte // of the files' bytes
	news   News
	seen   [2]os.FileInfo
}

// NewFiles reads the pairs, the first of which is the default, and begins to
// watch them; Close ends that. Every pair must be good to begin with. Errors
// are *[FileError].
func NewFiles(pairs []Pair, o FilesOptions) (*Files, error) {
	if len(pairs) == 0 {
		return nil, errors.New("no certificate files")
	}
	f := &Files{options: o}
	for _, p := range pairs {
		l := &loadedPair{pair: p}
		if _, err := l.read(time.Now()); err != nil {
			return nil, &FileError{Pair: p, Err: err}
		}
		f.pairs = append(f.pairs, l)
	}
	f.publish()
	if f.options.Poll <= 0 {
		f.options.Poll = defaultPoll
	}
	f.watch = startWatch(f.options.Poll, f.paths(), f.changed, f.check)
	return f, nil
}

// read loads the files if their bytes have changed and make a good pair.
func (l *loadedPair) read(now time.Time) (changed bool, err error) {
	certPEM, keyPEM, err := l.readFiles()
	if err != nil {
		return false, err
	}
	digest := sha256.Sum256(bytes.Join([][]byte{certPEM, keyPEM}, []byte{0}))
	if l.cert != nil && digest == l.digest {
		return false, nil
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return false, err
	}
	if l.cert != nil && now.After(cert.Leaf.NotAfter) && now.Before(l.cert.Leaf.NotAfter) {
		return false, fmt.Errorf("the new certificate expired on %s", cert.Leaf.NotAfter.Format(time.RFC3339))
	}
	l.cert, l.digest = &cert, digest
	return true, nil
}

// readFiles notes what the files look like before it reads them, so that a
// change in between is seen again.
func (l *loadedPair) readFiles() (certPEM, keyPEM []byte, err error) {
	l.seen = l.stat()
	if certPEM, err = os.ReadFile(l.pair.Cert); err != nil {
		return nil, nil, err
	}
	keyPEM, err = os.ReadFile(l.pair.Key)
	return certPEM, keyPEM, err
}

func (l *loadedPair) stat() (seen [2]os.FileInfo) {
	for i, path := range [...]string{l.pair.Cert, l.pair.Key} {
		if info, err := os.Stat(path); err == nil {
			seen[i] = info
		}
	}
	return seen
}

// untouched reports whether the files look as they did when they were read.
func (l *loadedPair) untouched() bool {
	for i, info := range l.stat() {
		was := l.seen[i]
		if info == nil || was == nil {
			if info != was {
				return false
			}
			continue
		}
		if !os.SameFile(info, was) || info.Size() != was.Size() || !info.ModTime().Equal(was.ModTime()) {
			return false
		}
	}
	return true
}

// Reload reads all files now. It returns what could not be replaced; the old
// certificates stay in use for those.
func (f *Files) Reload() error { return f.reload(func(*loadedPair) bool { return true }, true) }

// changed is called when the system says that something changed.
func (f *Files) changed() []string {
	_ = f.reload(func(*loadedPair) bool { return true }, false) // told to OnReload
	return f.paths()
}

// check is called now and then, and reads only what looks different.
func (f *Files) check() []string {
	_ = f.reload(func(l *loadedPair) bool { return !l.untouched() }, false) // told to OnReload
	return f.paths()
}

func (f *Files) reload(due func(*loadedPair) bool, again bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	var news []Reload
	for _, l := range f.pairs {
		if !due(l) {
			continue
		}
		changed, err := l.read(time.Now())
		if err != nil {
			err = &FileError{Pair: l.pair, Err: err}
			errs = append(errs, err)
		}
		if l.news.Worth(changed, err) || again && err != nil {
			news = append(news, Reload{Pair: l.pair, Info: InfoOf(l.cert.Leaf, "files", l.pair.Cert), Err: err})
		}
	}
	f.publish()
	if f.options.OnReload != nil {
		for _, n := range news {
			f.options.OnReload(n)
		}
	}
	return errors.Join(errs...)
}

// publish puts the pairs as they are now in use.
func (f *Files) publish() {
	certs := make([]*tls.Certificate, len(f.pairs))
	for i, l := range f.pairs {
		certs[i] = l.cert
	}
	f.current.Store(newIndex(certs))
}

func (f *Files) paths() []string {
	var paths []string
	for _, l := range f.pairs {
		paths = append(paths, l.pair.Cert, l.pair.Key)
	}
	return paths
}

// Certificate is the pair for the name in the hello.
func (f *Files) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return f.current.Load().find(hello), nil
}

// Default is the first pair, or one for the same name that suits the client better.
func (f *Files) Default(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return f.current.Load().fallback(hello), nil
}

// Describe lists the pairs.
func (f *Files) Describe() []CertInfo {
	f.mu.Lock()
	defer f.mu.Unlock()
	infos := make([]CertInfo, len(f.pairs))
	for i, l := range f.pairs {
		infos[i] = InfoOf(l.cert.Leaf, "files", l.pair.Cert)
	}
	return infos
}

// Close stops watching.
func (f *Files) Close() error { return f.watch.close() }
