package config

import (
	"testing"
	"time"
)

func TestANewTreeHasEveryDefault(t *testing.T) {
	tree := New()
	if tree.AccessLog != AccessLogStdout || tree.Limits.HeadBytes != 32<<10 || tree.Limits.BodyBytes != 1<<30 ||
		tree.Drain.Timeout != 30*time.Second || tree.Log.Level != LogInfo {
		t.Errorf("New() = %+v", tree)
	}
	if u := Default[Upstream](); u.Retries != 1 || u.Timeouts.Connect != 5*time.Second || u.Balance != BalanceP2C {
		t.Errorf("Default[Upstream]() = %+v", u)
	}
	if s := Default[TLS](); s.PQ != PQPrefer || s.MinVersion != TLS13 || !s.SessionTickets {
		t.Errorf("Default[TLS]() = %+v", s)
	}
	if l := Default[Listener](); l.Engine != EngineAuto || l.EarlyData != EarlyDataOff || l.QUIC.IdleTimeout != 30*time.Second {
		t.Errorf("Default[Listener]() = %+v", l)
	}
	if r := Default[Redirect](); r.Status != 308 {
		t.Errorf("Default[Redirect]() = %+v", r)
	}
}
