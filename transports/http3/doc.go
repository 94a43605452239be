// Package http3 speaks HTTP/3 (RFC 9114) over connections of quic-go: a
// server's side that makes exchanges of request streams, and a client's.
//
// quic-go's own http3 package makes an http.Request and maps of strings of each
// message, starts a goroutine for it, and cannot say GOAWAY on connections that
// it does not run itself; so the few frames of HTTP/3 are read and written here, straight from and
// into the exchange. Field sections are compressed by the static table alone
// (RFC 9204): we announce a dynamic table of no size and use none.
package http3
