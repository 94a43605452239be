package acme

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/hanzoai/pqgw/handshake"
)

// OnDemand bounds what strangers can make us ask for.
type OnDemand struct {
	// Ask is a URL that decides, called with ?domain=NAME: 200 means yes.
	Ask string
	// Rate is the most certificates an hour, at least 1.
	Rate int
}

const (
	// demandWait is how long a handshake waits for a certificate: less than
	// listeners let a handshake take by default. The order goes on without it.
	demandWait = 8 * time.Second
	// demandTime bounds one order. It is less than certmagic's pause before its
	// second try, so that there is one.
	demandTime = 55 * time.Second
	// demandBusy is how many hosts may be asked for at a time: names come from strangers.
	demandBusy = 8
	// demandNo is how long a refusal is remembered, and demandNos how many are.
	demandNo  = time.Minute
	demandNos = 4096
	// askTime bounds one call of Ask.
	askTime = 5 * time.Second
)

// Reasons why a host has no certificate on demand.
var (
	ErrNotAllowed = errors.New("the host may not have a certificate")
	ErrRate       = errors.New("as many certificates as may be were asked for within the hour")
	ErrBusy       = errors.New("certificates for other hosts are being asked for")
	ErrWait       = errors.New("the certificate is being asked for; try again")
)

// demand is the state of hosts that no route names.
type demand struct {
	client http.Client
	mu     sync.Mutex
	names  map[string]bool          // that have a certificate
	no     map[string]time.Time     // until when a name is refused without asking
	jobs   map[string]chan struct{} // closed when the job has ended
	issued []time.Time              // within the last hour
}

func (d *demand) init(o *OnDemand) {
	if o == nil {
		return
	}
	d.client = http.Client{Timeout: askTime, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	d.names, d.no, d.jobs = map[string]bool{}, map[string]time.Time{}, map[string]chan struct{}{}
}

// known are the hosts that have got a certificate on demand.
func (d *demand) known() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return sortedKeys(d.names)
}

// onDemand gets the certificate for a host that is not known yet, and lets the
// handshake wait for it. It is nil for what may not have one.
func (s *Source) onDemand(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := handshake.NormalName(hello.ServerName)
	if name == "" || s.named(name) || !certmagic.SubjectQualifiesForPublicCert(name) || certmagic.SubjectIsIP(name) {
		return nil, nil
	}
	job, err := s.demandJob(name)
	if job == nil {
		return nil, err
	}
	timer := time.NewTimer(demandWait)
	defer timer.Stop()
	ctx := hello.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	select {
	case <-job:
		return s.Set.Certificate(hello)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-timer.C:
		return nil, fmt.Errorf("%s: %w", name, ErrWait)
	}
}

// demandJob is the job that gets the certificate of name, a new one where none
// runs; nil where there is to be none.
func (s *Source) demandJob(name string) (chan struct{}, error) {
	d := &s.demand
	d.mu.Lock()
	defer d.mu.Unlock()
	if job := d.jobs[name]; job != nil {
		return job, nil
	}
	if time.Now().Before(d.no[name]) {
		return nil, nil
	}
	if s.ctx.Err() != nil {
		return nil, context.Cause(s.ctx)
	}
	if len(d.jobs) >= demandBusy {
		return nil, fmt.Errorf("%s: %w", name, ErrBusy)
	}
	job := make(chan struct{})
	d.jobs[name] = job
	s.wg.Go(func() {
		defer close(job)
		err := s.demandOne(name)
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.jobs, name)
		if err != nil && s.ctx.Err() == nil {
			d.refuse(name)
			s.log.Warn("no certificate on demand", "host", name, "error", err)
		}
	})
	return job, nil
}

// refuse remembers a name. Of too many all are forgotten: that costs some calls
// of Ask, no memory.
func (d *demand) refuse(name string) {
	if len(d.no) >= demandNos {
		clear(d.no)
	}
	d.no[name] = time.Now().Add(demandNo)
}

// demandOne asks, and loads or obtains the certificate of name.
func (s *Source) demandOne(name string) error {
	ctx, cancel := context.WithTimeout(s.ctx, demandTime)
	defer cancel()
	if err := s.ask(ctx, name); err != nil {
		return err
	}
	if !s.store.Exists(ctx, certmagic.StorageKeys.SiteCert(s.issuer, name)) && !s.demand.take(s.set.OnDemand.Rate) {
		return ErrRate
	}
	if err := s.obtain(ctx, name); err != nil {
		return err
	}
	s.demand.mu.Lock()
	s.demand.names[name] = true
	s.demand.mu.Unlock()
	s.refresh()
	return nil
}

// take counts one more certificate unless there were rate within the hour.
func (d *demand) take(rate int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	since := time.Now().Add(-time.Hour)
	d.issued = slices.DeleteFunc(d.issued, func(t time.Time) bool { return t.Before(since) })
	if len(d.issued) >= max(rate, 1) {
		return false
	}
	d.issued = append(d.issued, time.Now())
	return true
}

// ask lets the operator's URL decide. What is not a clear yes is a no.
func (s *Source) ask(ctx context.Context, name string) error {
	u, err := url.Parse(s.set.OnDemand.Ask)
	if err != nil {
		return err
	}
	q := u.Query()
	q.Set("domain", name)
	u.RawQuery = q.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return err
	}
	answer, err := s.demand.client.Do(r)
	if err != nil {
		return fmt.Errorf("%w: on_demand.ask: %w", ErrNotAllowed, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: on_demand.ask says %s", ErrNotAllowed, answer.Status)
	}
	return nil
}

// allowed is asked before each order and renewal: a host that was got on demand
// must still be wanted.
func (s *Source) allowed(ctx context.Context, name string) error {
	if s.set.OnDemand == nil || s.named(name) {
		return nil
	}
	s.demand.mu.Lock()
	renewal := s.demand.names[name]
	s.demand.mu.Unlock()
	if !renewal {
		return nil // it has just been asked
	}
	return s.ask(ctx, name)
}
