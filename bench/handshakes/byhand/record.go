package byhand

import (
	"bufio"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/cryptobyte"
)

// Types of records (RFC 8446, section 5.1).
const (
	typeChange      = 20 // change_cipher_spec, which means nothing in TLS 1.3
	typeAlert       = 21
	typeHandshake   = 22
	typeApplication = 23
)

const maxRecord = 16<<10 + 256

// records are what comes.
type records struct {
	from     io.Reader
	buffered *bufio.Reader
	messages []byte // of the handshake, not read yet
}

// record reads the next one that means something, decrypted.
func (c *Conn) record() (kind byte, body []byte, err error) {
	if c.buffered == nil {
		c.buffered = bufio.NewReaderSize(c.from, 8<<10)
	}
	for {
		var head [5]byte
		if _, err := io.ReadFull(c.buffered, head[:]); err != nil {
			return 0, nil, err
		}
		size := int(binary.BigEndian.Uint16(head[3:]))
		if size > maxRecord {
			return 0, nil, fmt.Errorf("a record of %d bytes", size)
		}
		body = make([]byte, size)
		if _, err := io.ReadFull(c.buffered, body); err != nil {
			return 0, nil, err
		}
		if kind = head[0]; kind == typeChange {
			continue
		}
		if c.in != nil {
			if kind, body, err = c.in.open(head[:], body); err != nil {
				return 0, nil, err
			}
		}
		if kind == typeAlert {
			return 0, nil, alert(body)
		}
		return kind, body, nil
	}
}

func alert(body []byte) error {
	if len(body) == 2 && body[1] == 0 {
		return io.EOF // close_notify
	}
	return fmt.Errorf("alert %v", body)
}

// send sends one record.
func (c *Conn) send(kind byte, body []byte) error {
	if c.out != nil {
		_, err := c.Conn.Write(c.out.seal(kind, body))
		return err
	}
	_, err := c.Conn.Write(append([]byte{kind, 3, 3, byte(len(body) >> 8), byte(len(body))}, body...))
	return err
}

// message reads the next message of the handshake, which must be of a kind,
// and adds it to the transcript.
func (h *handshake) message(want byte) (cryptobyte.String, error) {
	for {
		if m := h.messages; len(m) >= 4 {
			if size := 4 + int(m[1])<<16 + int(m[2])<<8 + int(m[3]); len(m) >= size {
				h.messages = m[size:]
				if m[0] != want {
					return nil, fmt.Errorf("message %d, wanted %d", m[0], want)
				}
				h.transcript.Write(m[:size])
				return cryptobyte.String(m[4:size]), nil
			}
		}
		kind, body, err := h.record()
		if err != nil {
			return nil, err
		}
		if kind != typeHandshake {
			return nil, fmt.Errorf("a record of type %d within the handshake", kind)
		}
		h.messages = append(h.messages, body...)
	}
}

// Read implements net.Conn. Session tickets are passed over.
func (c *Conn) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		kind, body, err := c.record()
		switch {
		case err != nil:
			return 0, err
		case kind == typeApplication:
			c.rest = body
		case kind != typeHandshake || len(body) == 0 || body[0] != newSessionTicket:
			return 0, errors.New("a record that should not come after the handshake")
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Write implements net.Conn, for what fits into a record.
func (c *Conn) Write(p []byte) (int, error) {
	if len(p) > 16<<10 {
		return 0, errors.New("more than a record")
	}
	if err := c.send(typeApplication, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close implements net.Conn: it says so first.
func (c *Conn) Close() error {
	err := c.send(typeAlert, []byte{1, 0})
	return errors.Join(err, c.Conn.Close())
}

// keys encrypt one direction (section 5.2).
type keys struct {
	aead cipher.AEAD
	iv   []byte
	next uint64 // number of the next record
}

func newKeys(secret []byte) (*keys, error) {
	key, err := expand(secret, "key", nil, 16)
	if err != nil {
		return nil, err
	}
	iv, err := expand(secret, "iv", nil, 12)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &keys{aead: aead, iv: iv}, err
}

func (k *keys) nonce() []byte {
	n := append([]byte(nil), k.iv...)
	binary.BigEndian.PutUint64(n[4:], binary.BigEndian.Uint64(n[4:])^k.next)
	k.next++
	return n
}

func (k *keys) seal(kind byte, body []byte) []byte {
	size := len(body) + 1 + k.aead.Overhead()
	head := []byte{typeApplication, 3, 3, byte(size >> 8), byte(size)}
	return k.aead.Seal(head, k.nonce(), append(append([]byte(nil), body...), kind), head)
}

// open takes the padding off, too; the type stands before it.
func (k *keys) open(head, body []byte) (kind byte, plain []byte, err error) {
	plain, err = k.aead.Open(body[:0], k.nonce(), body, head)
	if err != nil {
		return 0, nil, err
	}
	for len(plain) > 0 && plain[len(plain)-1] == 0 {
		plain = plain[:len(plain)-1]
	}
	if len(plain) == 0 {
		return 0, nil, errors.New("a record without a type")
	}
	return plain[len(plain)-1], plain[:len(plain)-1], nil
}

// schedule is the key schedule (section 7.1), without a ticket.
type schedule struct {
	handshake                    []byte
	client, server               []byte // of the handshake's records
	clientTraffic, serverTraffic []byte
	atFinished                   []byte // the transcript up to the server's Finished
}

var (
	zeros     [sha256.Size]byte
	emptyHash = sha256.Sum256(nil)
)

func (s *schedule) agree(shared, transcript []byte) error {
	early, err := hkdf.Extract(sha256.New, zeros[:], nil)
	if err != nil {
		return err
	}
	derived, err := expand(early, "derived", emptyHash[:], sha256.Size)
	if err != nil {
		return err
	}
	if s.handshake, err = hkdf.Extract(sha256.New, shared, derived); err != nil {
		return err
	}
	if s.client, err = expand(s.handshake, "c hs traffic", transcript, sha256.Size); err != nil {
		return err
	}
	s.server, err = expand(s.handshake, "s hs traffic", transcript, sha256.Size)
	return err
}

func (s *schedule) application(transcript []byte) error {
	s.atFinished = transcript
	derived, err := expand(s.handshake, "derived", emptyHash[:], sha256.Size)
	if err != nil {
		return err
	}
	master, err := hkdf.Extract(sha256.New, zeros[:], derived)
	if err != nil {
		return err
	}
	if s.clientTraffic, err = expand(master, "c ap traffic", transcript, sha256.Size); err != nil {
		return err
	}
	s.serverTraffic, err = expand(master, "s ap traffic", transcript, sha256.Size)
	return err
}

// expand is HKDF-Expand-Label.
func expand(secret []byte, label string, context []byte, size int) ([]byte, error) {
	var info cryptobyte.Builder
	info.AddUint16(uint16(size)) //nolint:gosec // at most that of a hash
	info.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes([]byte("tls13 " + label)) })
	info.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(context) })
	text, err := info.Bytes()
	if err != nil {
		return nil, err
	}
	return hkdf.Expand(sha256.New, secret, string(text), size)
}

func finishedMAC(secret, transcript []byte) []byte {
	key, err := expand(secret, "finished", nil, sha256.Size)
	if err != nil {
		return nil // equals no Finished
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(transcript)
	return mac.Sum(nil)
}
