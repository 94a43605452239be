//go:build !linux

package load

import "time"

func sleepUntil(at time.Time) { time.Sleep(time.Until(at)) }
