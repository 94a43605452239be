// Package handshakes measures what a handshake costs: by key exchange group,
// authentication, transport, and whether it is full, resumed, needs a
// HelloRetryRequest or sends its request as 0-RTT.
//
// Server and client are processes of their own, each on one CPU where there
// are two. The work is the same in every arm: connect, shake hands, send four
// bytes, read the answer's five, close. Every operation checks the answer,
// the group, the kind of handshake that came about, and the certificate. The
// server is the house's ([handshake.Server]); the client is crypto/tls and
// quic-go with nothing around them.
package handshakes
