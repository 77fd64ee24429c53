// Package tlslimit limits TLS connections that have not sent their request: their number and rate
// by address, and the bytes of their handshakes.
//
// # Concurrency
//
// A Limiter is safe for concurrent use. Its lock is held for map operations. A Handshake belongs to
// one goroutine.
package tlslimit

import (
	"container/list"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/base/clientaddr"
	"github.com/ruedahq/rueda/internal/base/proxy"
	"github.com/ruedahq/rueda/internal/base/ratelimit"
)

const (
	// MaxRead is the largest number of bytes that a client may send in a TLS handshake. Handshakes
	// of usual clients have less than 3 KiB.
	MaxRead = 16 << 10
	// FreeRead is the number of bytes of each handshake that do not count towards MaxTotal, so that
	// usual clients can connect during a flood of large handshakes.
	FreeRead = 4 << 10
	// MaxTotal bounds the total number of bytes that all handshakes in flight have read.
	MaxTotal = 32 << 20

	maxTracked = 1 << 16 // addresses
)

// Limiter limits the TLS connections of a server.
type Limiter struct {
	proxies proxy.Trusted
	rates   *ratelimit.Limiter[netip.Prefix]
	read    atomic.Int64 // bytes of handshakes in flight

	mu        sync.Mutex
	most      int // of one address
	rate      ratelimit.Rate
	byAddress map[netip.Prefix]*list.List // of *Waiting, oldest first
}

// Waiting is a connection that has not sent its request.
type Waiting struct {
	key   netip.Prefix
	evict func()
	elem  *list.Element // in Limiter.byAddress; nil: it is not counted any more
}

// New returns a Limiter that allows an address most connections at a time, and perSecond new ones
// after a burst. A proxy is not limited, because it carries the connections of all clients.
func New(most int, perSecond float64, burst int, proxies proxy.Trusted) *Limiter {
	l := &Limiter{proxies: proxies, rates: ratelimit.NewLimiter[netip.Prefix](maxTracked), byAddress: make(map[netip.Prefix]*list.List)}
	l.SetLimits(most, perSecond, burst)
	return l
}

// SetLimits replaces the limits of New. Connections above them stay open.
func (l *Limiter) SetLimits(most int, perSecond float64, burst int) {
	interval := time.Duration(float64(time.Second) / perSecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most, l.rate = most, ratelimit.Rate{Interval: interval, Burst: time.Duration(burst) * interval}
}

// Begin counts a connection until End. If the address has too many already, its oldest one goes:
// Begin calls the evict of that one, which must not block. The result is nil for a proxy, which End
// accepts. ok is false if the address makes new connections too fast.
func (l *Limiter) Begin(peer netip.Addr, now time.Time, evict func()) (w *Waiting, ok bool) {
	if l.proxies.Has(peer) {
		return nil, true
	}
	w = &Waiting{key: clientaddr.Client(peer), evict: evict}
	oldest, ok := l.add(w, now)
	if !ok {
		return nil, false
	}
	if oldest != nil {
		oldest.evict()
	}
	return w, true
}

// add counts w, and returns the connection of its address that goes for it, if any.
func (l *Limiter) add(w *Waiting, now time.Time) (oldest *Waiting, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, wait := l.rates.Take(w.key, l.rate, now); wait > 0 {
		return nil, false
	}
	own := l.byAddress[w.key]
	if own == nil {
		own = list.New()
		l.byAddress[w.key] = own
	}
	if own.Len() >= l.most {
		oldest = own.Remove(own.Front()).(*Waiting)
		oldest.elem = nil
	}
	w.elem = own.PushBack(w)
	return oldest, true
}

// End ends the count of a connection: its request was read, or it is closed.
func (l *Limiter) End(w *Waiting) {
	if w == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.elem == nil {
		return
	}
	own := l.byAddress[w.key]
	own.Remove(w.elem)
	w.elem = nil
	if own.Len() == 0 {
		delete(l.byAddress, w.key)
	}
}

// Pending returns the bytes that handshakes in flight have read.
func (l *Limiter) Pending() int64 { return l.read.Load() }

// Handshake returns the count of a new handshake. Its End must be called.
func (l *Limiter) Handshake() Handshake { return Handshake{total: &l.read} }

// Handshake counts the bytes that a TLS handshake has read.
type Handshake struct {
	total *atomic.Int64
	bytes int
}

// Left returns how many bytes the handshake may still read; 0: it must end.
func (h *Handshake) Left() int {
	if h.bytes >= FreeRead && h.total.Load() >= MaxTotal {
		return 0
	}
	return max(0, MaxRead-h.bytes)
}

// Add counts n bytes.
func (h *Handshake) Add(n int) {
	h.bytes += n
	h.total.Add(int64(n))
}

// End takes the bytes back.
func (h *Handshake) End() { h.total.Add(-int64(h.bytes)) }
