package kms

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

const (
	auditFile = "audit.log"
	// headFile tells the last line that was written, so that a log cut short
	// at a line's end shows.
	headFile = "audit.head"

	// maxLine bounds one line: the longest name, escaped, and the rest.
	maxLine = 16 << 10
)

// What a line of the audit says was done.
const (
	opGet     = "get"
	opSign    = "sign"
	opUnseal  = "unseal"
	opPut     = "put"     // a version was announced
	opStored  = "stored"  // the version announced in line Of is on disk
	opDelete  = "delete"  // a deletion was announced
	opDeleted = "deleted" // the one announced in line Of is done
	opRotate  = "rotate-master"
	opRotated = "master-rotated"
)

// Line is one line of the audit: a use or change of a key.
type Line struct {
	Seq     uint64    `json:"seq"` // 1, 2, 3, …
	Time    time.Time `json:"time"`
	Epoch   uint32    `json:"epoch"` // whose root's key made the MAC
	Op      string    `json:"op"`
	Name    string    `json:"name,omitempty"`
	Kind    Kind      `json:"kind,omitempty"`
	Version uint64    `json:"version,omitempty"`
	Of      uint64    `json:"of,omitempty"` // the line that this one completes
	Purpose string    `json:"purpose,omitempty"`
	Actor   string    `json:"actor"`
	PID     int       `json:"pid"`
	UID     int       `json:"uid"`
	// Torn is the SHA-256 of an unfinished line right before this one, left by
	// a writer that was killed.
	Torn string `json:"torn,omitempty"`
	Prev string `json:"prev"` // MAC of the line before; empty in the first
}

// A line ends with its MAC: HMAC-SHA256 over all before it.
const (
	macKey    = `,"mac":"`
	macSuffix = len(macKey) + 2*sha256.Size + len("\"}\n")
)

// auditLog appends lines. Processes take turns by an flock on the file.
type auditLog struct {
	store *Store

	closing  chan struct{} // closed first, so that nobody goes on waiting
	patience time.Duration // for the flock

	mu     sync.Mutex // taken before the store's, never after it
	closed bool
	file   *os.File
	head   *os.File
	size   int64 // where the file ended after our last line
	last   position
}

// auditPatience bounds the wait for the line of another process, which takes
// microseconds, and a flush of the disk where it announces a change: one that was
// stopped in the middle must not hold up every handshake for good.
const auditPatience = 10 * time.Second

// position is the end of the chain.
type position struct {
	seq   uint64
	epoch uint32
	mac   string
}

func openAudit(dir string, s *Store) (*auditLog, error) {
	a := &auditLog{store: s, size: -1, closing: make(chan struct{}), patience: auditPatience}
	var err error
	a.file, err = os.OpenFile(filepath.Join(dir, auditFile), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fail("open audit", dir, err, "each use of a key leaves a line there")
	}
	a.head, err = os.OpenFile(filepath.Join(dir, headFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		_ = a.file.Close()
		return nil, fail("open audit", dir, err, "")
	}
	return a, nil
}

// close waits for the line that is being written. The caller must not hold the
// store's lock, since that line needs it.
func (a *auditLog) close() error {
	close(a.closing)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	return errors.Join(a.file.Close(), a.head.Close())
}

// append adds a line. A use of a key that cannot be written down must not
// happen: callers pass the error on.
func (a *auditLog) append(l Line) error {
	_, err := a.appendSeq(l)
	return err
}

// appendSeq is append that returns the line's number. Lines that announce or
// complete a change are flushed to disk, uses of keys are left to the system.
func (a *auditLog) appendSeq(l Line) (uint64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	seq, err := a.appendLocked(l)
	if err != nil {
		return 0, fail("audit", l.Name, err, "no key is used without its line in "+auditFile)
	}
	return seq, nil
}

func (a *auditLog) appendLocked(l Line) (uint64, error) {
	unlock, err := a.lock()
	if err != nil {
		return 0, err
	}
	defer unlock()
	torn, err := a.catchUp()
	if err != nil {
		return 0, err
	}
	line, mac, err := a.render(&l, torn)
	if err != nil {
		return 0, err
	}
	step("audit line")
	n, err := a.file.Write(line)
	if err != nil {
		a.size = -1
		return 0, err
	}
	a.size += int64(n)
	a.last = position{seq: l.Seq, epoch: l.Epoch, mac: mac}
	step("audit line written")
	if err := a.writeHead(l.Epoch); err != nil {
		return 0, err
	}
	if l.Op != opGet && l.Op != opSign {
		return l.Seq, a.file.Sync()
	}
	return l.Seq, nil
}

// lock takes the turn of this process. Errors: ErrBusy, ErrClosed.
func (a *auditLog) lock() (unlock func(), err error) {
	if a.closed {
		return nil, ErrClosed
	}
	return lockOpen(a.file, a.patience, a.closing)
}

// render completes l and returns its bytes.
func (a *auditLog) render(l *Line, torn []byte) (line []byte, mac string, err error) {
	v, err := a.store.view()
	if err != nil {
		return nil, "", err
	}
	if a.last.epoch > v.header.Epoch {
		if err := a.store.load(); err != nil {
			return nil, "", err
		}
		if v, err = a.store.view(); err != nil {
			return nil, "", err
		}
	}
	l.Seq, l.Prev, l.Epoch = a.last.seq+1, a.last.mac, v.header.Epoch
	l.Time, l.Actor = a.store.opts.Now().UTC(), a.store.opts.Actor
	l.PID, l.UID = os.Getpid(), os.Getuid()
	l.Torn = tornSum(torn)
	body, err := json.Marshal(l)
	if err != nil {
		return nil, "", err
	}
	body = body[:len(body)-1]
	mac, err = v.auditMAC(l.Epoch, body)
	if err != nil {
		return nil, "", err
	}
	if len(torn) > 0 && torn[len(torn)-1] != '\n' {
		line = append(line, '\n')
	}
	line = append(append(append(append(line, body...), macKey...), mac...), "\"}\n"...)
	if len(line) > maxLine {
		return nil, "", ErrTooLarge
	}
	return line, mac, nil
}

func (v view) auditMAC(epoch uint32, body []byte) (string, error) {
	var out string
	err := v.epochs[epoch].audit.Use(func(key []byte) error {
		m := hmac.New(sha256.New, key)
		m.Write(body)
		out = hex.EncodeToString(m.Sum(nil))
		return nil
	})
	if err != nil {
		return "", ErrNoKey
	}
	return out, nil
}

// catchUp finds the end of the chain where others have written since. It
// returns the unfinished line at the end, if there is one.
func (a *auditLog) catchUp() (torn []byte, err error) {
	info, err := a.file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() == a.size {
		return nil, nil
	}
	a.size = info.Size()
	from := max(0, a.size-2*maxLine)
	tail := make([]byte, a.size-from)
	if _, err := a.file.ReadAt(tail, from); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	a.last, torn = lastLine(tail)
	if a.last == (position{}) && a.size > 2*maxLine {
		return nil, fmt.Errorf("%w: no line of the audit is at its end", ErrTampered)
	}
	// A log that ends before its head was cut: the chain goes on from the
	// head, and the gap stays for VerifyAudit to find.
	head, ok := a.readHead()
	if ok && head.seq > a.last.seq {
		a.last = head
	}
	return torn, nil
}

// lastLine finds the last whole line and what comes after it.
func lastLine(tail []byte) (last position, torn []byte) {
	end := bytes.LastIndexByte(tail, '\n') + 1
	for end > 0 {
		start := bytes.LastIndexByte(tail[:end-1], '\n') + 1
		if l, _, mac, err := parseLine(tail[start:end]); err == nil {
			return position{seq: l.Seq, epoch: l.Epoch, mac: mac}, tail[end:]
		}
		end = start
	}
	return position{}, tail
}

// tornSum names what a killed writer left between two lines; empty for nothing.
func tornSum(torn []byte) string {
	if len(torn) == 0 {
		return ""
	}
	sum := sha256.Sum256(bytes.TrimRight(torn, "\n"))
	return hex.EncodeToString(sum[:])
}

// parseLine takes a whole line apart; body is what its MAC is over.
func parseLine(line []byte) (l Line, body []byte, mac string, err error) {
	if len(line) < macSuffix || len(line) > maxLine {
		return l, nil, "", ErrCorrupt
	}
	body, end := line[:len(line)-macSuffix], line[len(line)-macSuffix:]
	if !bytes.HasPrefix(end, []byte(macKey)) || !bytes.HasSuffix(end, []byte("\"}\n")) {
		return l, nil, "", ErrCorrupt
	}
	mac = string(end[len(macKey) : len(macKey)+2*sha256.Size])
	if err := json.Unmarshal(append(body[:len(body):len(body)], '}'), &l); err != nil {
		return l, nil, "", fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return l, body, mac, nil
}

// Head names the end of the audit as it is now, "SEQ:MAC": kept elsewhere, it
// proves later that nothing up to there was cut off or rewritten.
type Head string

func (p position) head() Head { return Head(strconv.FormatUint(p.seq, 10) + ":" + p.mac) }

// headSize is that of a head record: seq, epoch, MAC of the line, MAC of all
// this.
const headSize = 20 + 1 + 10 + 1 + 64 + 1 + 64 + 1

func (a *auditLog) writeHead(epoch uint32) error {
	v, err := a.store.view()
	if err != nil {
		return err
	}
	record := fmt.Sprintf("%020d %010d %s", a.last.seq, a.last.epoch, a.last.mac)
	mac, err := v.auditMAC(epoch, []byte("head "+record))
	if err != nil {
		return err
	}
	_, err = a.head.WriteAt([]byte(record+" "+mac+"\n"), 0)
	return err
}

// readHead returns the head record, where there is one that authenticates.
func (a *auditLog) readHead() (position, bool) {
	data := make([]byte, headSize)
	if n, _ := a.head.ReadAt(data, 0); n != headSize {
		return position{}, false
	}
	v, err := a.store.view()
	if err != nil {
		return position{}, false
	}
	return v.parseHead(data)
}

func (v view) parseHead(data []byte) (position, bool) {
	fields := bytes.Fields(data)
	if len(data) != headSize || len(fields) != 4 {
		return position{}, false
	}
	seq, err1 := strconv.ParseUint(string(fields[0]), 10, 64)
	epoch, err2 := strconv.ParseUint(string(fields[1]), 10, 32)
	if err1 != nil || err2 != nil {
		return position{}, false
	}
	want, err := v.auditMAC(uint32(epoch), append([]byte("head "), bytes.Join(fields[:3], []byte{' '})...))
	if err != nil || !hmac.Equal([]byte(want), fields[3]) {
		return position{}, false
	}
	return position{seq: seq, epoch: uint32(epoch), mac: string(fields[2])}, true
}

// PrintAudit writes the lines as they are, JSON each: what was written by the
// time it is called.
func (s *Store) PrintAudit(w io.Writer) error {
	log, err := s.audit.snapshot()
	if err != nil {
		return fail("read audit", s.dir, err, "")
	}
	f, err := os.Open(log.path)
	if err != nil {
		return fail("read audit", s.dir, err, "")
	}
	defer f.Close()
	_, err = io.Copy(w, io.LimitReader(f, log.size))
	return err
}
