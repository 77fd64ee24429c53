// Package tlslimit limits TLS connections that have not sent their request: their number and rate
// by address, and the bytes of their handshakes.
//
// # Concurrency
//
// A Limiter is safe for concurrent use. Its lock is held for map operations. A Handshake belongs to
// one goroutine.
package tlslimit

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/clientaddr"
	"github.com/ruedahq/rueda/internal/proxy"
	"github.com/ruedahq/rueda/internal/ratelimit"
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

	mu   sync.Mutex
	most int // of one address
	rate ratelimit.Rate
	open map[netip.Prefix]int
}

// New returns a Limiter that allows an address most connections at a time, and perSecond new ones
// after a burst. A proxy is not limited, because it carries the connections of all clients.
func New(most int, perSecond float64, burst int, proxies proxy.Trusted) *Limiter {
	l := &Limiter{proxies: proxies, rates: ratelimit.NewLimiter[netip.Prefix](maxTracked), open: make(map[netip.Prefix]int)}
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

// Begin counts a connection until End. counted is false for a proxy. ok is false if the address has
// too many connections.
func (l *Limiter) Begin(peer netip.Addr, now time.Time) (counted, ok bool) {
	if l.proxies.Has(peer) {
		return false, true
	}
	key := clientaddr.Client(peer)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, wait := l.rates.Take(key, l.rate, now); wait > 0 {
		return false, false
	}
	if l.open[key] >= l.most {
		return false, false
	}
	l.open[key]++
	return true, true
}

// End ends a counted connection: its request was read, or it is closed.
func (l *Limiter) End(peer netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := clientaddr.Client(peer)
	if l.open[key]--; l.open[key] == 0 {
		delete(l.open, key)
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
