// Package load has the two ends that benches put a gateway between: an origin,
// which answers by every transport with the same handler, and a load generator,
// which asks by every transport in a closed loop or at a constant rate. Each is
// a process of its own.
//
// Bodies are cut from one pattern. Each connection begins with an exchange whose
// body is compared byte by byte at its far end, whichever way it goes; the
// lengths of all others are checked.
package load
