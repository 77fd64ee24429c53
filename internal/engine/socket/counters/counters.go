// Package counters has the counters of the shards of a server. Each shard counts in plain fields
// that only its goroutine uses. To read them, a [Collector] asks every shard, and each one answers
// between two inputs.
//
// # Concurrency
//
// The methods of Collector may be called by any goroutine. A shard that does not answer in time is
// reported as stale, with its last answer: a counter that falls looks like a restart.
package counters

import (
	"maps"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/base/histogram"
	"github.com/ruedahq/rueda/internal/engine/subscription"
)

// Shard has the counters of one shard, or of all shards together.
type Shard struct {
	Opened uint64            // sessions that have begun
	Closed map[string]uint64 // sessions that have ended, by reason
	Slow   uint64            // sessions that began to read too slowly
	Pauses uint64            // of reading connections that sent too much
	Bytes  uint64            // of output that the kernel has accepted

	Stream subscription.Figures // of the shard's subscribers

	// Delivery has the times from the publication of the oldest message of a flush until a write.
	Delivery histogram.Histogram
}

// Close counts a session that has ended.
func (s *Shard) Close(reason string) {
	if s.Closed == nil {
		s.Closed = make(map[string]uint64)
	}
	s.Closed[reason]++
}

// Wrote counts writes of a flush whose oldest message was published at a time; 0: it had none.
func (s *Shard) Wrote(now time.Time, oldest int64, writes int) {
	if oldest != 0 && writes > 0 {
		s.Delivery.Add(time.Duration(now.UnixNano()-oldest), writes)
	}
}

// Copy returns a copy for another goroutine.
func (s *Shard) Copy() Shard {
	c := *s
	c.Closed = maps.Clone(s.Closed)
	return c
}

// add adds the counters of another shard.
func (s *Shard) add(o *Shard) {
	s.Opened += o.Opened
	s.Slow += o.Slow
	s.Pauses += o.Pauses
	s.Bytes += o.Bytes
	s.Stream.Messages += o.Stream.Messages
	s.Stream.Deliveries += o.Stream.Deliveries
	s.Stream.Conflated += o.Stream.Conflated
	s.Stream.Resumes += o.Stream.Resumes
	s.Stream.Lost += o.Stream.Lost
	s.Delivery.Merge(&o.Delivery)
	for reason, n := range o.Closed {
		s.Closed[reason] += n
	}
}

// Patience is how long a Collector waits for the answers of all shards together.
const Patience = 50 * time.Millisecond

// Answer is what a shard answers.
type Answer struct {
	Index int // of the shard
	Shard
}

// Collector collects the counters of shards. The zero Collector is ready.
type Collector struct {
	mu   sync.Mutex // held while it waits, so that scrapes cannot fill the inboxes
	last []Shard
}

// Collect asks n shards and returns the sum of their counters, and which ones did not answer within
// Patience. ask passes the request to a shard without blocking. The shard sends one Answer to
// reply, which never blocks.
func (c *Collector) Collect(n int, ask func(index int, reply chan<- Answer)) (total Shard, stale []bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = make([]Shard, n)
	}
	reply := make(chan Answer, n) // late answers go there too
	stale = make([]bool, n)
	for i := range n {
		stale[i] = true
		ask(i, reply)
	}
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	for left := n; left > 0; left-- {
		select {
		case a := <-reply:
			c.last[a.Index], stale[a.Index] = a.Shard, false
			continue
		case <-timer.C:
		}
		break
	}
	total.Closed = make(map[string]uint64)
	for i := range c.last {
		total.add(&c.last[i])
	}
	return total, stale
}
