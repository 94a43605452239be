//go:build !unix

package transports

import "net"

func socketBuffers(*net.UDPConn) (receive, send int, ok bool) { return 0, 0, false }
