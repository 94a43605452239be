package bench

import "runtime"

// Apart gives a server and a client a CPU each where there are two, the first
// and the last; -1 leaves them to the scheduler.
func Apart() (server, client int) {
	if runtime.NumCPU() < 2 {
		return -1, -1
	}
	return 0, runtime.NumCPU() - 1
}
