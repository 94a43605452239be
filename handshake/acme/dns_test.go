package acme

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/libdns/libdns"
	"github.com/miekg/dns"

	"github.com/hanzoai/pqgw/internal/scenario"
)

func record(value string) []libdns.Record {
	return []libdns.Record{libdns.RR{Type: "TXT", Name: "_acme-challenge.a", Data: value, TTL: recordLife}}
}

func TestUpdatesAddAndRemoveOneOfSeveralRecords(t *testing.T) {
	ns := scenario.NewNameserver(t)
	p := &RFC2136{Server: ns.Addr, KeyName: "Update", KeySecret: ns.KeySecret, KeyAlgorithm: "hmac-sha256"}
	for _, value := range []string{"one", "two"} {
		if _, err := p.AppendRecords(t.Context(), "example.com", record(value)); err != nil {
			t.Fatal(err)
		}
	}
	if ns.Left() != 2 || ns.Records()[1] != "_acme-challenge.a.example.com. two" {
		t.Fatalf("the zone has %q", ns.Records())
	}
	if _, err := p.DeleteRecords(t.Context(), "example.com.", record("one")); err != nil || ns.Left() != 1 {
		t.Errorf("%d records are left, %v; want one", ns.Left(), err)
	}
}

func TestUpdatesThatAreRefusedSayWhatToCheck(t *testing.T) {
	ns := scenario.NewNameserver(t)
	good := RFC2136{Server: ns.Addr, KeyName: "update", KeySecret: ns.KeySecret, KeyAlgorithm: "hmac-sha256"}
	unsigned, foreign := good, good
	unsigned.KeyName = ""
	foreign.KeySecret = "YW5vdGhlciBzZWNyZXQ="
	for name, c := range map[string]struct {
		p     RFC2136
		zone  string
		rcode int
		hint  string
	}{
		"without a key":     {unsigned, "example.com", dns.RcodeNotAuth, "check the key"},
		"by another's key":  {foreign, "example.com", dns.RcodeNotAuth, "check the key"},
		"of another's zone": {good, "example.net", dns.RcodeNotZone, "primary of that zone"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.p.AppendRecords(t.Context(), c.zone, record("x"))
			var refused *UpdateError
			switch {
			case errors.As(err, &refused):
				if refused.Rcode != c.rcode || !strings.Contains(err.Error(), c.hint) {
					t.Errorf("got %v", err)
				}
			case err == nil || !strings.Contains(err.Error(), "DNS update of "+c.zone):
				t.Errorf("got %v", err)
			}
			if ns.Left() != 0 {
				t.Error("a record was written")
			}
		})
	}
	if _, err := (&RFC2136{Server: "127.0.0.1:1"}).AppendRecords(t.Context(), "example.com", record("x")); err == nil {
		t.Error("nobody took the update, and nothing is said")
	}
	if _, err := good.AppendRecords(t.Context(), "example.com", []libdns.Record{libdns.RR{Type: "A", Name: "a", Data: "127.0.0.1"}}); err == nil {
		t.Error("a record of another type was written")
	}
}

func TestTheProgramGetsNameAndValueAndItsFailureIsTold(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	p := &Exec{Command: []string{"sh", "-c", "echo \"$@\" >>" + out, "hook"}}
	if _, err := p.AppendRecords(t.Context(), "example.com.", record("value; with $(shell) in it")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.DeleteRecords(t.Context(), "example.com.", record("v")); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(out)
	want := "present _acme-challenge.a.example.com value; with $(shell) in it\ncleanup _acme-challenge.a.example.com v\n"
	if err != nil || string(got) != want {
		t.Errorf("called with %q, %v", got, err)
	}
	bad := &Exec{Command: []string{"sh", "-c", "echo zone is locked; exit 3"}}
	if _, err := bad.AppendRecords(t.Context(), "example.com.", record("v")); err == nil || !strings.Contains(err.Error(), "zone is locked") {
		t.Errorf("got %v", err)
	}
	if _, err := (&Exec{}).AppendRecords(t.Context(), "example.com.", record("v")); err == nil {
		t.Error("no program was called, and nothing is said")
	}
}
