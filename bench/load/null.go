package load

import (
	"bytes"
	"net"
	"strconv"
	"sync"
)

// null is the server that does least: it answers each read that ends a head
// of HTTP/1 with what it made once. What it serves in a second is the load
// generator's own limit.
type null struct {
	listener net.Listener
	mu       sync.Mutex
	conns    map[net.Conn]struct{}
	wg       sync.WaitGroup
}

func listenNull(address string) (*null, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	n := &null{listener: l, conns: make(map[net.Conn]struct{})}
	n.wg.Go(n.accept)
	return n, nil
}

func (n *null) close() {
	_ = n.listener.Close()
	n.mu.Lock()
	for c := range n.conns {
		_ = c.Close()
	}
	n.mu.Unlock()
	n.wg.Wait()
}

func (n *null) accept() {
	for {
		c, err := n.listener.Accept()
		if err != nil {
			return
		}
		n.mu.Lock()
		n.conns[c] = struct{}{}
		n.mu.Unlock()
		n.wg.Go(func() { n.serve(c) })
	}
}

// serve answers each request of a connection as the first, which are all the
// same.
func (n *null) serve(c net.Conn) {
	defer func() {
		_ = c.Close()
		n.mu.Lock()
		delete(n.conns, c)
		n.mu.Unlock()
	}()
	buf := make([]byte, 4<<10)
	var answer []byte
	for {
		got, err := c.Read(buf)
		if err != nil {
			return
		}
		if !bytes.HasSuffix(buf[:got], []byte("\r\n\r\n")) {
			return // not what the load generator sends
		}
		if answer == nil {
			if answer = canned(buf[:got]); answer == nil {
				return
			}
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// canned is the answer to a request for a body.
func canned(request []byte) []byte {
	fields := bytes.Fields(request)
	if len(fields) < 2 {
		return nil
	}
	size, _, err := sizeOf(fields[1])
	if err != nil {
		return nil
	}
	head := "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(size) + "\r\n\r\n"
	return append([]byte(head), pattern()[:size]...)
}
