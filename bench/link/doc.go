// Package link is the lab that benches run across: two or three hosts as
// network namespaces, joined by links of a known rate and round trip time.
//
//	load  ══ link0 (, link1) ══  gateway  ── back ──  origin
//
// A link is a veth pair whose ends are shaped (tbf or htb). Where a round trip
// time is asked for that a veth pair does not have, the link is a pair of TUN
// interfaces instead, with a wire between them: a process that hands every
// packet over half a round trip later. That delays the kernel's own packets,
// handshakes and acknowledgements too, so congestion control sees the line
// that was asked for.
//
// It drives ip(8) and tc(8): every Linux host has them, what they are told can
// be typed again by whoever doubts a number, and they know each kernel's
// netlink better than a library of ours would. Everything of a lab lies in
// namespaces whose names begin with [Prefix], so whatever a crash leaves behind
// is found by name, and taking the namespaces away takes all of it away.
package link
