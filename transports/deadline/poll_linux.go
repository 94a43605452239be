package deadline

import "golang.org/x/sys/unix"

// pollSet is the argument of poll(2), kept between ticks.
type pollSet struct{ fds []unix.PollFd }

// closed appends to gone the entries whose peer has closed its side, by one
// system call for all, whatever bytes are still unread before the end.
func (p *pollSet) closed(asked, gone []*Entry) []*Entry {
	p.fds = p.fds[:0]
	for _, e := range asked {
		p.fds = append(p.fds, unix.PollFd{Fd: int32(e.FD), Events: unix.POLLRDHUP})
	}
	if n, err := unix.Poll(p.fds, 0); err != nil || n == 0 {
		return gone
	}
	for i, fd := range p.fds {
		if since := asked[i].ask.Load(); fd.Revents != 0 && since > 0 && asked[i].ask.CompareAndSwap(since, 0) {
			gone = append(gone, asked[i])
		}
	}
	return gone
}
