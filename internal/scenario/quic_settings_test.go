package scenario

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// The promise: QUIC is tuned in the file. A client proves its address where that is asked for,
// and needs not do so again with the token it was given; an answer that is long in coming outlives
// the idle time, unless pings are switched off.

func TestQUICIsTunedInTheFile(t *testing.T) {
	const idle, thinks = time.Second, 2500 * time.Millisecond
	origin := NewOrigin(t, false, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			time.Sleep(thinks) //nolint:forbidigo // the service's own time
		}
	}))
	for pings, wantSlow := range map[string]bool{"15s": true, "0s": false} {
		t.Run("keep_alive "+pings, func(t *testing.T) {
			f := &Front{CA: NewCA(t), Addr: FreeAddr(t), Plain: FreeAddr(t)}
			f.Leaf = f.CA.Leaf(t, "localhost", "127.0.0.1")
			config := f.Config(FrontOptions{H3: true, Routes: To(origin.URL)})
			f.Gateway = Run(t, strings.Replace(config, "tls: public,", "tls: public, quic: {retry_above: 0, idle_timeout: "+idle.String()+", keep_alive: "+pings+"},", 1))
			path := newUDPPath(t, f.Addr)
			tokens := quic.NewLRUTokenStore(1, 4)
			connect := func() *http3.Transport {
				tr := &http3.Transport{
					TLSClientConfig: &tls.Config{RootCAs: f.CA.Pool(), ServerName: "localhost"},
					QUICConfig:      &quic.Config{TokenStore: tokens},
				}
				t.Cleanup(func() { _ = tr.Close() })
				return tr
			}
			tr := connect()
			if status, err := roundTrip(t, tr, http.MethodGet, "https://"+path.addr+"/"); err != nil || status != http.StatusOK {
				t.Fatal(status, err)
			}
			first := path.retry.Load() // one for each of the packets that carry the hello
			if first == 0 {
				t.Error("the first connection saw no Retry packet")
			}
			status, err := roundTrip(t, tr, http.MethodGet, "https://"+path.addr+"/slow")
			if came := err == nil && status == http.StatusOK; came != wantSlow {
				t.Errorf("the slow answer: %d, %v", status, err)
			}
			if status, err := roundTrip(t, connect(), http.MethodGet, "https://"+path.addr+"/"); err != nil || status != http.StatusOK {
				t.Fatal(status, err)
			}
			if n := path.retry.Load() - first; n != 0 {
				t.Errorf("with a token there were %d Retry packets, want none", n)
			}
		})
	}
}
