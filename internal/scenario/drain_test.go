package scenario

import (
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
)

// The promise: SIGTERM under load loses no request: what was taken is
// answered, then the gateway exits 0; only its time limit cuts what hangs.

func TestDrainUnderLoadLosesNoRequest(t *testing.T) {
	origin := NewOrigin(t, false, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 20000))
	}))
	f := NewFront(t, FrontOptions{H3: true, Routes: To(origin.URL)})
	var loads []*Load
	for name, target := range targets(t, f) {
		loads = append(loads, StartLoad(t, 3, func() (bool, error) {
			body, _, err := Get(target.client, target.url)
			switch {
			case errors.Is(err, syscall.ECONNREFUSED), refusedByQUIC(err):
				return true, nil // it does not take new connections, as it should
			case err != nil:
				return false, fmt.Errorf("%s: %w", name, err)
			case len(body) != 20000:
				return false, fmt.Errorf("%s: %d bytes of body, want 20000", name, len(body))
			}
			return false, nil
		}))
	}
	for _, load := range loads {
		load.AwaitProgress(t, 50)
	}
	f.Stop(t)
	for _, load := range loads {
		load.Join(t)
	}
}

// refusedByQUIC tells what a client sees of a gateway that takes no connections, or
// is not there any more.
func refusedByQUIC(err error) bool {
	var refused *quic.TransportError
	var silent *quic.IdleTimeoutError
	var late *quic.HandshakeTimeoutError
	return errors.As(err, &refused) && refused.ErrorCode == quic.ConnectionRefused || errors.As(err, &silent) || errors.As(err, &late)
}

func TestDrainFinishesWhatRuns(t *testing.T) {
	for _, name := range []string{"h1 tls", "h2 tls", "h1 clear", "h3"} {
		t.Run(name, func(t *testing.T) {
			arrived, release := make(chan struct{}), make(chan struct{})
			origin := NewOrigin(t, false, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/slow" {
					return
				}
				_, _ = w.Write([]byte("begun, "))
				_ = http.NewResponseController(w).Flush()
				close(arrived)
				<-release
				_, _ = w.Write([]byte("and ended"))
			}))
			f := NewFront(t, FrontOptions{H3: true, Routes: To(origin.URL)})
			target := targets(t, f)[name]
			answer := make(chan string, 1)
			go func() {
				body, _, err := Get(target.client, target.url+"/slow")
				answer <- fmt.Sprint(body, err)
			}()
			<-arrived
			f.Signal(t, syscall.SIGTERM)
			Await(t, "new connections to be refused", func() bool {
				fresh := f.CA.Client(t, false)
				defer fresh.CloseIdleConnections()
				_, _, err := Get(fresh, f.PlainURL+"/new")
				return errors.Is(err, syscall.ECONNREFUSED)
			})
			close(release)
			if got := <-answer; got != "begun, and ended<nil>" {
				t.Errorf("the request under way got %q", got)
			}
			f.stopped = true
			if code := f.ExitCode(t); code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
		})
	}
}

func TestDrainIsCutByItsTimeout(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	origin := NewOrigin(t, false, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-release
	}))
	f := NewFront(t, FrontOptions{Routes: To(origin.URL), Drain: "500ms"})
	answer := make(chan error, 1)
	go func() {
		_, _, err := Get(f.CA.Client(t, false), f.PlainURL)
		answer <- err
	}()
	<-arrived
	began := time.Now()
	f.Stop(t)
	if took := time.Since(began); took < 500*time.Millisecond || took > 15*time.Second {
		t.Errorf("the drain took %v, want its timeout of 500ms and little more", took)
	}
	if err := <-answer; err == nil {
		t.Error("the request that hung got an answer")
	}
}

func TestNotReadyOnceItDrains(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	origin := NewOrigin(t, false, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-release
	}))
	f := NewFront(t, FrontOptions{Routes: To(origin.URL)})
	answer := make(chan error, 1)
	go func() {
		_, _, err := Get(f.CA.Client(t, false), f.PlainURL)
		answer <- err
	}()
	<-arrived
	if status, body := f.Admin(t, http.MethodPost, "/drain"); status != http.StatusAccepted {
		t.Errorf("POST /drain: %d %s, want 202", status, body)
	}
	Await(t, "/readyz to say no", func() bool {
		status, _, err := f.askAdmin(http.MethodGet, "/readyz")
		return err == nil && status == http.StatusServiceUnavailable
	})
	if status, body := f.Admin(t, http.MethodGet, "/healthz"); status != http.StatusOK {
		t.Errorf("/healthz while draining: %d %s, want 200", status, body)
	}
	close(release)
	if err := <-answer; err != nil {
		t.Errorf("the request under way: %v", err)
	}
	f.stopped = true
	if code := f.ExitCode(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}
