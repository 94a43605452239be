package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"github.com/hanzoai/pqgw/internal/unixsock"
)

// DefaultAdminAddress is where a gateway's admin pages are when nothing else
// is configured.
const DefaultAdminAddress = "unix:/run/pqgw/admin.sock"

// Limits of the admin server: a handful of operators and scrapers use it.
const (
	adminConnections   = 64
	adminHeadBytes     = 16 << 10
	adminHeadTimeout   = 5 * time.Second
	adminReadTimeout   = 10 * time.Second
	adminAnswerTimeout = 5 * time.Minute // the longest profile
	adminIdleTimeout   = time.Minute
)

// AdminServer serves an Admin's pages on one address.
type AdminServer struct {
	server *http.Server
	addr   net.Addr
	done   chan struct{}
	err    error // valid once done is closed
}

// ServeAdmin listens on address, "unix:/path" (the socket gets mode 0600, its
// folder is made) or "host:port", and serves the pages from a goroutine that
// Close ends.
func ServeAdmin(address string, a *Admin, logger *slog.Logger) (*AdminServer, error) {
	l, err := listenAdmin(address)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	s := &AdminServer{
		server: &http.Server{
			Handler:           a.Handler(),
			ReadHeaderTimeout: adminHeadTimeout,
			ReadTimeout:       adminReadTimeout,
			WriteTimeout:      adminAnswerTimeout,
			IdleTimeout:       adminIdleTimeout,
			MaxHeaderBytes:    adminHeadBytes,
			ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
		},
		addr: l.Addr(),
		done: make(chan struct{}),
	}
	go s.serve(netutil.LimitListener(l, adminConnections))
	return s, nil
}

func listenAdmin(address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return unixsock.Listen(path, 0o600)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w; the address is host:port or unix:/path", err)
	}
	return l, nil
}

func (s *AdminServer) serve(l net.Listener) {
	defer close(s.done)
	if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		s.err = err
	}
}

// Addr is the address as bound.
func (s *AdminServer) Addr() net.Addr { return s.addr }

// Done is closed when the server has ended, by Close or by itself.
func (s *AdminServer) Done() <-chan struct{} { return s.done }

// Close stops listening, lets the calls under way end until ctx is done, and
// cuts those that have not.
func (s *AdminServer) Close(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.server.Close())
	}
	<-s.done
	if err = errors.Join(err, s.err); err != nil {
		return fmt.Errorf("close admin: %w", err)
	}
	return nil
}
