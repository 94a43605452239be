// Package handshake decides who may talk to us and how: TLS versions, key
// exchange groups and the post-quantum policy, certificates in use, peer
// identity, session tickets, and the facts of each handshake. It knows TLS as
// crypto/tls has it and nothing of what is said afterwards.
//
// A listener holds one [Server], an upstream one [Client]. Both hand out an
// immutable *tls.Config, run handshakes, and answer with [Facts] or with a
// [*RefusedError] that carries a typed [Reason].
package handshake
