package transports

import "net"

// inherit gives another hold on the socket that from listens on: what waits to be
// accepted stays where it is while one listener follows the other. nil where
// there is none to have, on unix sockets, whose path goes with the first.
func inherit(from *Listener) net.Listener {
	if from == nil {
		return nil
	}
	t, ok := from.ln.(*net.TCPListener)
	if !ok {
		return nil
	}
	f, err := t.File()
	if err != nil {
		return nil // it is bound anew, which says what is wrong
	}
	defer func() { _ = f.Close() }()
	ln, err := net.FileListener(f)
	if err != nil {
		return nil
	}
	return ln
}
