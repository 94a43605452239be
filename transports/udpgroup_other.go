//go:build !linux

package transports

import "net"

// Groups for one system call, which only Linux has.
const listenGroups, dialGroups = 1, 1

// grouped leaves the socket as it is.
func grouped(udp *net.UDPConn, _ int) net.PacketConn { return udp }
