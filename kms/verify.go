package kms

import (
	"bufio"
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// AuditReport is what VerifyAudit found.
type AuditReport struct {
	Lines    uint64   `json:"lines"`
	Torn     int      `json:"torn"` // lines left unfinished by a kill, accounted for
	Head     Head     `json:"head"` // keep it elsewhere: --head proves this far
	Problems []string `json:"problems"`
}

// maxProblems bounds the report: a chain that is broken at the start is broken
// in every line.
const maxProblems = 100

func (r *AuditReport) problem(format string, args ...any) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// VerifyAudit checks the audit from its first line to its last, and the
// entries against it. What it notices:
//   - a line changed, inserted, removed or moved, wherever, and a chain written
//     anew: each line's MAC is over the line and the MAC before it, by a key
//     that only holders of the master have;
//   - a log cut short at the end: by its head record; where that was put back
//     as well, by entries whose lines are missing; and by anchor, a Head that
//     was printed earlier and kept elsewhere. Without an anchor, one who can
//     write to the folder can hide uses since the last change by putting back
//     an earlier log together with its head;
//   - an entry put back to an earlier version, restored after its deletion, or
//     removed.
//
// It holds the writer's lock; readers go on.
func (s *Store) VerifyAudit(ctx context.Context, anchor Head) (AuditReport, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return AuditReport{}, err
	}
	defer unlock()
	v, err := s.view()
	if err != nil {
		return AuditReport{}, err
	}
	a := &auditor{view: v, report: AuditReport{Problems: []string{}}, anchor: anchor, anchored: anchor == "", entries: make(map[string]*entryLines)}
	log, err := s.audit.snapshot()
	if err != nil {
		return AuditReport{}, fail("verify audit", s.dir, err, "")
	}
	if err := a.readLog(ctx, log); err != nil {
		return AuditReport{}, fail("verify audit", s.dir, err, "")
	}
	a.checkEnd(log)
	if err := a.checkEntries(s); err != nil {
		return AuditReport{}, err
	}
	a.report.Head = a.last.head()
	return a.report, nil
}

// snapshot is the log as it stands between two lines.
type snapshot struct {
	path string
	size int64
	head position
	has  bool
}

func (a *auditLog) snapshot() (snapshot, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	unlock, err := a.lock()
	if err != nil {
		return snapshot{}, err
	}
	defer unlock()
	info, err := a.file.Stat()
	if err != nil {
		return snapshot{}, err
	}
	head, ok := a.readHead()
	return snapshot{path: filepath.Join(a.store.dir, auditFile), size: info.Size(), head: head, has: ok}, nil
}

// entryLines are the lines about one entry.
type entryLines struct {
	announced map[uint64]uint64 // line → version, since the last that was completed
	stored    uint64            // line that announced the version that is there
	version   uint64
	deleted   bool
	deleting  bool
}

// auditor walks the log.
type auditor struct {
	view     view
	report   AuditReport
	anchor   Head
	anchored bool
	headSeen bool
	last     position
	torn     []byte // what was read since the last whole line
	entries  map[string]*entryLines
}

func (a *auditor) readLog(ctx context.Context, log snapshot) error {
	f, err := os.Open(log.path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(io.LimitReader(f, log.size), 2*maxLine)
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			if len(line)+len(a.torn) > 0 {
				a.report.Torn++ // unfinished at the end: the next writer accounts for it
			}
			return ctx.Err()
		case errors.Is(err, bufio.ErrBufferFull):
			return ErrTooLarge
		case err != nil:
			return err
		}
		a.line(line)
		a.headSeen = a.headSeen || log.has && a.last == log.head
		a.anchored = a.anchored || a.last.head() == a.anchor
	}
}

func (a *auditor) line(line []byte) {
	l, body, mac, err := parseLine(line)
	if err != nil {
		if len(a.torn)+len(line) > 2*maxLine {
			a.report.problem("after line %d: what is there is no audit", a.last.seq)
			a.torn = a.torn[:0]
		}
		a.torn = append(a.torn, line...)
		return
	}
	want, err := a.view.auditMAC(l.Epoch, body)
	switch {
	case err != nil:
		a.report.problem("line %d: epoch %d is unknown", l.Seq, l.Epoch)
	case !hmac.Equal([]byte(want), []byte(mac)):
		a.report.problem("line %d: its MAC is wrong: changed, or written without the master", l.Seq)
	}
	if l.Seq != a.last.seq+1 {
		a.report.problem("line %d follows line %d: lines are missing, added or moved", l.Seq, a.last.seq)
	}
	if l.Prev != a.last.mac {
		a.report.problem("line %d does not continue line %d", l.Seq, a.last.seq)
	}
	if l.Epoch < a.last.epoch {
		a.report.problem("line %d: written with the key of an earlier epoch", l.Seq)
	}
	if l.Torn != tornSum(a.torn) {
		a.report.problem("before line %d: an unfinished line is not what was found then", l.Seq)
	} else if l.Torn != "" {
		a.report.Torn++
	}
	a.torn = a.torn[:0]
	a.last = position{seq: l.Seq, epoch: l.Epoch, mac: mac}
	a.report.Lines++
	a.note(&l)
}

// note keeps what the line says of its entry.
func (a *auditor) note(l *Line) {
	if l.Name == "" || l.Op == opGet || l.Op == opSign {
		return
	}
	e := a.entries[l.Name]
	if e == nil {
		e = &entryLines{announced: make(map[uint64]uint64)}
		a.entries[l.Name] = e
	}
	switch l.Op {
	case opPut:
		e.announced[l.Seq] = l.Version
		e.deleting = false
	case opStored:
		*e = entryLines{announced: make(map[uint64]uint64), stored: l.Of, version: l.Version}
	case opDelete:
		e.deleting = true
	case opDeleted:
		*e = entryLines{announced: make(map[uint64]uint64), deleted: true}
	}
}

// checkEnd looks for a log that was cut short.
func (a *auditor) checkEnd(log snapshot) {
	switch {
	case !log.has && a.report.Lines > 0:
		a.report.problem("the head record is missing or does not authenticate")
	case log.has && !a.headSeen:
		a.report.problem("the log ends at line %d and does not hold line %d of its head record: it was cut", a.last.seq, log.head.seq)
	}
	if !a.anchored {
		a.report.problem("the log does not hold the line of the head given: it was cut or replaced")
	}
}

// checkEntries compares the entries with what the log says of them.
func (a *auditor) checkEntries(s *Store) error {
	files, err := sealedFiles(s.dir)
	if err != nil {
		return err
	}
	seen := make(map[string]bool, len(files))
	for _, file := range files {
		d, err := readListed(s.dir, file)
		if err == nil {
			_, err = s.authenticate(d)
		}
		if err != nil {
			a.report.problem("file %s: %v", file, err)
			continue
		}
		seen[d.head.Name] = true
		a.checkEntry(&d.head)
	}
	for name, e := range a.entries {
		if e.stored != 0 && !e.deleting && !seen[name] {
			a.report.problem("entry %q: version %d was stored in line %d and is not there", name, e.version, e.stored)
		}
	}
	return nil
}

func (a *auditor) checkEntry(h *head) {
	e := a.entries[h.Name]
	switch {
	case e == nil:
		a.report.problem("entry %q: no line tells of it: the log was cut or replaced", h.Name)
	case e.announced[h.Audit] == h.Version && h.Version != 0:
		// The last one announced, whose writer was killed before it was done.
	case e.deleted:
		a.report.problem("entry %q: it was deleted, and put back", h.Name)
	case e.stored != h.Audit || e.version != h.Version:
		a.report.problem("entry %q: version %d of line %d is there, version %d of line %d was stored last", h.Name, h.Version, h.Audit, e.version, e.stored)
	}
}
