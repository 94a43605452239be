// Package kms keeps keys: made, sealed at rest, rotated, audited and signed
// with.
//
// A Store is a folder. Every secret in it is a file of its own, sealed to the
// store's recipients with HPKE (RFC 9180) over MLKEM768-X25519
// (draft-ietf-hpke-pq), its name, kind and version bound in as associated
// data. Names, kinds and dates are in clear; values never are. Clear parts are
// authenticated by a key that only a holder of the master has, so files can be
// neither swapped nor forged by whoever can write to the folder.
//
// Readers take no lock. Writers hold an flock on the folder, replace files by
// rename, and keep the one before: a torn file is noticed by its checksum and
// the last whole one is served instead. Each use of a key appends a line to a
// hash-chained, keyed audit file; see VerifyAudit for what that can prove.
package kms
