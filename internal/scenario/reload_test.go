package scenario

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// The promise: a reload under load loses no request, and what runs keeps the
// tree that it began with; a bad configuration changes nothing, and is told.

// generation is a configuration that marks each answer with its number.
func generation(origin *Origin, n int) FrontOptions {
	return FrontOptions{H3: true, Routes: fmt.Sprintf(`routes: [{to: origin, response_headers: {set: {X-Generation: "%d"}}}]
upstreams: {origin: {endpoints: [%q]}}`, n, origin.URL)}
}

func TestReloadUnderLoadLosesNoRequest(t *testing.T) {
	origin := NewOrigin(t, false, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(strings.Repeat("x", 20000)))
	}))
	f := NewFront(t, generation(origin, 0))
	var loads []*Load
	for name, target := range targets(t, f) {
		loads = append(loads, StartLoad(t, 3, func() (bool, error) {
			body, _, err := Get(target.client, target.url)
			if err == nil && len(body) != 20000 {
				err = fmt.Errorf("%s: %d bytes of body, want 20000", name, len(body))
			}
			return false, err
		}))
	}
	client := f.CA.Client(t, true)
	for n := 1; n <= 5; n++ {
		f.WriteConfig(t, f.Config(generation(origin, n)))
		f.Signal(t, syscall.SIGHUP)
		Await(t, fmt.Sprintf("generation %d", n), func() bool {
			_, header, err := Get(client, f.URL)
			if err != nil {
				t.Fatal(err)
			}
			return header.Get("X-Generation") == fmt.Sprint(n)
		})
		for _, load := range loads {
			load.AwaitProgress(t, 20)
		}
	}
	for _, load := range loads {
		load.Stop(t)
	}
}

func TestRequestKeepsTheTreeItBeganWith(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	origin := NewOrigin(t, false, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(arrived)
			<-release
		}
	}))
	f := NewFront(t, generation(origin, 1))
	client := f.CA.Client(t, true)
	slow := make(chan string, 1)
	go func() {
		_, header, err := Get(client, f.URL+"/slow")
		slow <- fmt.Sprint(header.Get("X-Generation"), " ", err)
	}()
	<-arrived
	f.WriteConfig(t, f.Config(generation(origin, 2)))
	if status, body := f.Admin(t, http.MethodPost, "/reload"); status != http.StatusOK {
		t.Fatalf("POST /reload: %d %s", status, body)
	}
	if _, header, err := Get(client, f.URL+"/quick"); err != nil || header.Get("X-Generation") != "2" {
		t.Errorf("a request after the reload: generation %q, error %v; want 2", header.Get("X-Generation"), err)
	}
	close(release)
	if got := <-slow; got != "1 <nil>" {
		t.Errorf("the request that began before the reload: %s, want generation 1 and no error", got)
	}
}

func TestBadConfigurationIsNotTakenOnReload(t *testing.T) {
	origin := NewOrigin(t, false, nil)
	f := NewFront(t, generation(origin, 1))
	good := f.Config(generation(origin, 1))
	f.WriteConfig(t, good+"\nlistenrs: []\n")
	status, body := f.Admin(t, http.MethodPost, "/reload")
	if status != http.StatusUnprocessableEntity || !strings.Contains(body, "listenrs") {
		t.Errorf("POST /reload of a bad configuration: %d %s; want 422 and the key", status, body)
	}
	if _, header, err := Get(f.CA.Client(t, false), f.URL); err != nil || header.Get("X-Generation") != "1" {
		t.Errorf("after a bad reload: generation %q, error %v; want 1", header.Get("X-Generation"), err)
	}
	if _, metrics := f.Admin(t, http.MethodGet, "/metrics"); !strings.Contains(metrics, "pqgw_config_last_reload_successful 0") {
		t.Error("the metrics do not say that the last reload failed")
	}
	f.WriteConfig(t, good)
	if status, body := f.Admin(t, http.MethodPost, "/reload"); status != http.StatusOK {
		t.Errorf("POST /reload of a good configuration: %d %s", status, body)
	}
	if _, metrics := f.Admin(t, http.MethodGet, "/metrics"); !strings.Contains(metrics, "pqgw_config_last_reload_successful 1") {
		t.Error("the metrics do not say that the last reload succeeded")
	}
}

func TestALogThatCannotBeOpenedIsNotTakenOnReload(t *testing.T) {
	f := NewFront(t, generation(NewOrigin(t, false, nil), 1))
	good := f.Config(generation(NewOrigin(t, false, nil), 2))
	f.WriteConfig(t, "access_log: /nowhere/at/all/access.log\n"+good)
	status, body := f.Admin(t, http.MethodPost, "/reload")
	if status != http.StatusUnprocessableEntity || !strings.Contains(body, "access log") {
		t.Errorf("POST /reload: %d %s; want 422 and the log", status, body)
	}
	if _, header, err := Get(f.CA.Client(t, false), f.URL); err != nil || header.Get("X-Generation") != "1" {
		t.Errorf("after it: generation %q, error %v; want 1", header.Get("X-Generation"), err)
	}
}

// target is a way to reach a front, with a client of its own.
type target struct {
	client *http.Client
	url    string
}

func targets(t *testing.T, f *Front) map[string]target {
	all := map[string]target{
		"h1 tls":   {f.CA.Client(t, false), f.URL},
		"h2 tls":   {f.CA.Client(t, true), f.URL},
		"h1 clear": {f.CA.Client(t, false), f.PlainURL},
	}
	if f.h3 {
		all["h3"] = target{f.CA.HTTP3Client(t), f.URL}
	}
	return all
}

func TestARenamedListenerKeepsItsSocket(t *testing.T) {
	addr := FreeAddr(t)
	named := func(name string) string {
		return fmt.Sprintf("version: 1\nlisteners: [{name: %s, address: %q, protocols: [h1]}]\n"+
			"routes: [{respond: {status: 200, headers: {X-Name: %s}}}]", name, addr, name)
	}
	g := Run(t, named("zero"))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: Patience}
	load := StartLoad(t, 3, func() (bool, error) {
		_, _, err := Get(client, "http://"+addr)
		return false, err
	})
	for _, name := range []string{"one", "two", "three"} {
		g.WriteConfig(t, named(name))
		if status, body := g.Admin(t, http.MethodPost, "/reload"); status != http.StatusOK {
			t.Fatal(body)
		}
		Await(t, "the answers of "+name, func() bool {
			_, header, err := Get(client, "http://"+addr)
			if err != nil {
				t.Fatal(err)
			}
			return header.Get("X-Name") == name
		})
		load.AwaitProgress(t, 20)
	}
	load.Stop(t)
}
