//go:build !linux

package kms

func mapProtected(n int) []byte { return make([]byte, n) }

func unmapProtected([]byte) {}

// Harden does nothing on this system.
func Harden() error { return nil }
