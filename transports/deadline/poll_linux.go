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
	if _, err := unix.Poll(p.fds, 0); err != nil {
		return gone
	}
	for i, fd := range p.fds {
		e := asked[i]
		since := e.ask.Load()
		if since == 0 || since > 0 && fd.Revents == 0 {
			continue
		}
		if e.ask.CompareAndSwap(since, 0) && fd.Revents != 0 {
			gone = append(gone, e)
		}
	}
	return gone
}
