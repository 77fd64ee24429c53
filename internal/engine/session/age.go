package session

import "time"

// age is the start of a session, as seconds modulo 2^24, which is more than half a year. It takes
// three bytes because a session has space for no more.
type age [3]uint8

// set sets the start to a time since the start of the gateway.
func (a *age) set(at time.Duration) {
	s := uint32(at / time.Second)
	*a = age{uint8(s), uint8(s >> 8), uint8(s >> 16)}
}

// until returns the time from the start until now, a time since the start of the gateway.
func (a *age) until(now time.Duration) time.Duration {
	began := uint32(a[0]) | uint32(a[1])<<8 | uint32(a[2])<<16
	return time.Duration((uint32(now/time.Second)-began)&(1<<24-1)) * time.Second
}
