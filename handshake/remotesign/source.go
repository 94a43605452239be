package remotesign

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/kms"
)

// poll bounds how long a chain that was put goes unnoticed.
const poll = 5 * time.Second

// Signers have keys elsewhere: a [Client], or that of another service.
type Signers interface {
	// Public asks for the public half of a key.
	Public(ctx context.Context, name string) (crypto.PublicKey, error)
	// SignerOf gives a signer for a public key that is known already.
	SignerOf(name, purpose string, public crypto.PublicKey) (kms.Signer, error)
	// Close ends calls and connections.
	Close() error
}

// SourceSettings are a certificate whose key is elsewhere.
type SourceSettings struct {
	// Key is its name at the signing servers.
	Key string
	// Chain is the PEM file of the certificate, leaf first; or, with ReadChain, what to
	// call the place that it comes from.
	Chain string
	// ReadChain, which may be nil, gives the text instead of a file.
	ReadChain func() ([]byte, error)
	// Compared says that SignerOf itself refuses a certificate of another key.
	Compared bool
	// Poll is how often the chain is looked at; 0 stands for 5 s.
	Poll time.Duration
	// OnReload, which may be nil, is told of each chain that was taken (nil) or not,
	// and at the start if the servers do not have the certificate's key.
	OnReload func(error)
}

// Source is a [handshake.Source] of one certificate whose key the signing servers
// have. Listeners use it for one purpose, clients for the other.
type Source struct {
	handshake.Set // as served
	asClient      handshake.Set
	client        Signers
	settings      SourceSettings
	digest        [sha256.Size]byte
	leaf          *x509.Certificate
	news          handshake.News
	cancel        context.CancelFunc
	wg            sync.WaitGroup
}

// NewSource reads the chain and looks after its file in a goroutine that Close
// ends. The client is closed with it. The servers need not be up.
func NewSource(client Signers, s SourceSettings) (*Source, error) {
	if s.ReadChain == nil {
		s.ReadChain = func() ([]byte, error) { return os.ReadFile(s.Chain) }
	}
	src := &Source{client: client, settings: s}
	src.Kind, src.asClient.Kind = "remote", "remote"
	if _, err := src.load(); err != nil {
		return nil, src.wrap(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	src.cancel = cancel
	if src.settings.Poll <= 0 {
		src.settings.Poll = poll
	}
	src.wg.Go(func() { src.watch(ctx) })
	return src, nil
}

func (s *Source) wrap(err error) error {
	return fmt.Errorf("certificate %s of the remote key %s: %w", s.settings.Chain, s.settings.Key, err)
}

// Default is the certificate; without a hello, for use as a client.
func (s *Source) Default(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if hello == nil {
		return s.asClient.Default(nil)
	}
	return s.Set.Default(hello)
}

// Close ends the goroutine and the client.
func (s *Source) Close() error {
	s.cancel()
	err := s.client.Close()
	s.wg.Wait()
	return err
}

func (s *Source) watch(ctx context.Context) {
	if !s.settings.Compared {
		s.compare(ctx)
	}
	tick := time.NewTicker(s.settings.Poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.check()
		}
	}
}

// compare tells early of a certificate that is not for the servers' key.
func (s *Source) compare(ctx context.Context) {
	public, err := s.client.Public(ctx, s.settings.Key)
	if err == nil {
		if k, ok := public.(interface{ Equal(x crypto.PublicKey) bool }); ok && !k.Equal(s.leaf.PublicKey) {
			err = errors.New("the certificate is for another key than the signing server has")
		}
	}
	if err != nil && ctx.Err() == nil && s.settings.OnReload != nil {
		s.settings.OnReload(s.wrap(err))
	}
}

func (s *Source) check() {
	changed, err := s.load()
	if err != nil {
		err = s.wrap(err)
	}
	if s.news.Worth(changed, err) && s.settings.OnReload != nil {
		s.settings.OnReload(err)
	}
}

// load takes the chain if it is another.
func (s *Source) load() (changed bool, err error) {
	text, err := s.settings.ReadChain()
	if err != nil {
		return false, err
	}
	digest := sha256.Sum256(text)
	if s.leaf != nil && digest == s.digest {
		return false, nil
	}
	chain, leaf, err := parseChain(text)
	if err != nil {
		return false, err
	}
	if s.leaf != nil && time.Now().After(leaf.NotAfter) && time.Now().Before(s.leaf.NotAfter) {
		return false, fmt.Errorf("the new certificate expired on %s", leaf.NotAfter.Format(time.RFC3339))
	}
	for set, purpose := range map[*handshake.Set]string{&s.Set: PurposeServer, &s.asClient: PurposeClient} {
		key, err := s.client.SignerOf(s.settings.Key, purpose, leaf.PublicKey)
		if err != nil {
			return false, err
		}
		cert := &tls.Certificate{Certificate: chain, PrivateKey: key, Leaf: leaf}
		if _, ok := leaf.PublicKey.(*rsa.PublicKey); ok {
			cert.SupportedSignatureAlgorithms = []tls.SignatureScheme{tls.PSSWithSHA256, tls.PSSWithSHA384, tls.PSSWithSHA512}
		}
		set.Put([]handshake.Held{{Certificate: cert, Location: s.settings.Chain}})
	}
	s.digest, s.leaf = digest, leaf
	return true, nil
}

func parseChain(text []byte) (chain [][]byte, leaf *x509.Certificate, err error) {
	for block, rest := pem.Decode(bytes.TrimSpace(text)); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			chain = append(chain, block.Bytes)
		}
	}
	if len(chain) == 0 {
		return nil, nil, errors.New("there is no certificate in PEM")
	}
	leaf, err = x509.ParseCertificate(chain[0])
	return chain, leaf, err
}
