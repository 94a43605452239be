//go:build !linux

package transports

func setKeepAlive(int) error { return nil }
