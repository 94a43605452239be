//go:build race

package scenario

// raceEnabled says that the tests run under the race detector, and that the
// binary is built with it.
const raceEnabled = true
