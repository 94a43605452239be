// Command monobinary is a service that brings its own post-quantum edge: a
// net/http handler and a fasthttp handler in one process, behind the gateway as a
// library.
//
//	go run ./examples/monobinary
//	curl --cacert ~/.local/share/pqgw/ca/ca.pem https://localhost:8443/v1/models
package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/valyala/fasthttp"

	"github.com/hanzoai/pqgw"
	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/exchange/mount"
)

const configuration = `
version: 1
tls: {edge: {certificates: {dev: {}}, pq: prefer}}
listeners: [{name: edge, address: "%s", protocols: [h1, h2], tls: edge}]
routes:
  - {match: {path: /v1/*}, to: api}
  - {match: {path: /files/*}, to: files, rewrite: {strip_prefix: /files}}
  - {match: {path: /trace}, to: trace}
`

func main() {
	address := "127.0.0.1:8443"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	if err := run(address); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(address string) error {
	api := func(ctx *fasthttp.RequestCtx) {
		ctx.SetContentType("application/json")
		fmt.Fprintf(ctx, `{"models":[],"pq_group":%q}`+"\n", ctx.Request.Header.Peek("X-PQ-Group"))
	}
	files := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s over %s\n", r.URL.Path, r.Header.Get("X-PQ-Group"))
	})
	s, err := pqgw.Start(pqgw.Options{
		Load: func() (*pqgw.Loaded, error) {
			tree, warnings, err := config.Parse("monobinary", fmt.Appendf(nil, configuration, address), config.Options{
				Mounts: []string{"api", "files"},
			})
			return &pqgw.Loaded{Tree: tree, Warnings: warnings}, err
		},
		Mounts: map[string]exchange.Handler{"api": mount.FastHTTP(api), "files": mount.HTTP(files)},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	<-end
	return s.Drain()
}
