//go:build !linux

package bench

// readSystem has nothing to add: the benches that need more run on Linux.
func readSystem(e *Environment) { e.CPU, e.Kernel = "unknown", "unknown" }

// Interfaces are none where there is nobody to ask.
func Interfaces() []Interface { return nil }
