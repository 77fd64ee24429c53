package rest

import "sync"

// rooms is memory of pages of history, which are some megabytes. It is used again: to make it anew for
// each would keep the collector at work, which costs those who follow the stream.
type rooms struct{ free sync.Pool } // of *[]byte

// mostRoom is the largest piece that is kept.
const mostRoom = 4 << 20

// take is an empty slice with room for n bytes.
func (r *rooms) take(n int) []byte {
	if p, _ := r.free.Get().(*[]byte); p != nil && cap(*p) >= n {
		return (*p)[:0]
	}
	return make([]byte, 0, n)
}

// giveBack takes the memory of an answer that was written.
func (r *rooms) giveBack(b []byte) {
	if cap(b) > 0 && cap(b) <= mostRoom {
		r.free.Put(&b)
	}
}
