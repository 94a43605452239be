package main

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestBothHandlersAnswerBehindTheEdgeAndSeeTheGroup(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	_ = ln.Close()
	done := make(chan error, 1)
	go func() { done <- run(address) }()
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the example's own
		ForceAttemptHTTP2: true,
	}}
	defer client.CloseIdleConnections()
	for path, want := range map[string]string{"/v1/models": `"pq_group":"X25519MLKEM768"`, "/files/a": "/a over X25519MLKEM768"} {
		if got := get(t, client, "https://"+address+path); !strings.Contains(got, want) {
			t.Errorf("%s answers %q, want %q in it", path, got, want)
		}
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// get asks until the edge is up.
func get(t *testing.T, c *http.Client, url string) string {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		resp, err := c.Get(url)
		if err == nil {
			b, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			return string(b)
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
