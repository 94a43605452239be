package handshake

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long files must lie still before they are read: a certificate
// and its key are written one after the other.
const settle = 100 * time.Millisecond

// unrest is how long events can put a reading off: other files may share the folder.
const unrest = time.Second

// watch is a goroutine that calls back when files may have changed. It watches
// the folders, because files are replaced rather than written, and looks at
// the files now and then, because not every file system tells.
type watch struct {
	notify  *fsnotify.Watcher // nil where the system has none left
	stop    chan struct{}
	done    chan struct{}
	begun   chan struct{} // closed once what changed before the first watching has been seen
	folders []string
}

// startWatch watches the folders of paths. changed is called after news from
// the system, check after each poll; both return the paths to watch from then on.
func startWatch(poll time.Duration, paths []string, changed, check func() []string) *watch {
	w := &watch{stop: make(chan struct{}), done: make(chan struct{}), begun: make(chan struct{})}
	if n, err := fsnotify.NewWatcher(); err == nil {
		w.notify = n
	}
	w.follow(paths)
	go w.run(poll, changed, check)
	return w
}

func (w *watch) run(poll time.Duration, changed, check func() []string) {
	defer close(w.done)
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	var events chan fsnotify.Event
	var errs chan error
	if w.notify != nil {
		events, errs = w.notify.Events, w.notify.Errors
	}
	var due <-chan time.Time
	var since time.Time // of the first event that due answers
	soon := func() {
		if due == nil {
			since = time.Now()
		}
		if due == nil || time.Since(since) < unrest {
			due = time.After(settle)
		}
	}
	soon() // what changed between the first reading and the first watching
	for {
		select {
		case <-w.stop:
			return
		case _, more := <-events:
			if soon(); !more {
				events = nil // the poll goes on alone
			}
		case _, more := <-errs: // events were lost
			if soon(); !more {
				errs = nil
			}
		case <-due:
			due = nil
			if w.follow(changed()) {
				soon()
			}
			w.begin()
		case <-ticker.C:
			if w.follow(check()) {
				soon()
			}
		}
	}
}

func (w *watch) begin() {
	select {
	case <-w.begun:
	default:
		close(w.begun)
	}
}

// follow watches the folders that paths lead through now, and no others. It
// reports whether they are others than before.
func (w *watch) follow(paths []string) (moved bool) {
	if w.notify == nil {
		return false
	}
	var folders []string
	for _, p := range paths {
		folders = append(folders, foldersOf(p)...)
	}
	slices.Sort(folders)
	folders = slices.Compact(folders)
	for _, f := range folders {
		_ = w.notify.Add(f) // the poll sees what this one cannot
	}
	for _, f := range w.folders {
		if _, still := slices.BinarySearch(folders, f); !still {
			_ = w.notify.Remove(f) // gone already
		}
	}
	moved = !slices.Equal(w.folders, folders)
	w.folders = folders
	return moved
}

func (w *watch) close() error {
	close(w.stop)
	<-w.done
	if w.notify != nil {
		return w.notify.Close()
	}
	return nil
}

// maxLinks ends a chase of symbolic links that go round in a circle, as the kernel does.
const maxLinks = 40

// foldersOf are the folders in which a change can make path another file: the
// one that holds it, and each that holds a symbolic link on the way to it.
func foldersOf(path string) []string {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	var folders []string
	at, rest := string(filepath.Separator), path
	for links := 0; links < maxLinks; {
		rest = strings.TrimLeft(rest, string(filepath.Separator))
		if rest == "" {
			break
		}
		name, more, _ := strings.Cut(rest, string(filepath.Separator))
		next := filepath.Join(at, name)
		target, err := os.Readlink(next)
		if err != nil {
			if more == "" {
				folders = append(folders, at)
			}
			at, rest = next, more
			continue
		}
		links++
		folders = append(folders, at)
		if !filepath.IsAbs(target) {
			target = filepath.Join(at, target)
		}
		at, rest = string(filepath.Separator), filepath.Join(target, more)
	}
	return folders
}
