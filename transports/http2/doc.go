// Package http2 speaks HTTP/2 (RFC 9113), as a server and towards upstreams,
// over one loop of our own.
//
// One goroutine per connection reads and never writes. On the server's side each stream
// gets a worker, which runs the handler and writes the answer itself; frames
// gather in the connection's output, and whoever holds the write token sends
// them, after one turn of the scheduler in which others may add theirs: what is
// ready together shares a TLS record and a system call.
//
// What a stranger can make us keep is bounded: streams and workers by MaxStreams,
// request bodies by the connection's window, heads by Limits, output by a high
// water mark apart from the client's window, frames that carry nothing and
// resets by budgets that useful work refills.
package http2
