package feeds

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/market"
)

// Reasons of the market-wide status feed_down.
const (
	reasonFeedError = "feed_error"
	reasonFeedEnded = "feed_ended"
)

const (
	firstBackoff = time.Second      // upper bound of the first random pause before a restart
	maxBackoff   = 30 * time.Second // upper bound of any pause
	healthyAfter = time.Minute      // a run of this length resets the backoff
	refusedEvery = 10 * time.Second // shortest time between two log lines about rejected events
)

// Supervisor runs one source until its context ends. It is the feed.Sink of that source.
type Supervisor struct {
	name     string
	source   feed.Source
	sink     feed.Sink
	numbers  feed.Resumer // nil: numbers of the source are not stored
	registry *Registry
	checker  *checker
	log      *slog.Logger

	started   chan struct{} // closed at the first events, or when the first run ends
	startOnce sync.Once
	down      atomic.Bool // the registry knows that the source is down
	off       bool        // the same; guarded by registry.mu
	allDown   atomic.Bool // the source has reported all its markets down

	events   atomic.Uint64
	newest   atomic.Int64 // time of the newest events, Unix ns
	rejected atomic.Uint64
	failures atomic.Uint64

	mu         sync.Mutex
	refused    int // rejected calls since the last log line
	lastLogged time.Time
}

// NewSupervisor returns a Supervisor of source. Its events go to sink, except for those that the
// checks refuse.
func NewSupervisor(name string, source feed.Source, sink feed.Sink, checks Checks, r *Registry, log *slog.Logger) *Supervisor {
	return &Supervisor{
		name: name, source: source, sink: sink, registry: r, checker: newChecker(checks),
		log: log.With("feed", name), started: make(chan struct{}),
	}
}

// Name returns the name of the source.
func (s *Supervisor) Name() string { return s.name }

// Stats are the counters of a Supervisor.
type Stats struct {
	Up       bool      // it has published events, and neither failed nor reported all its markets down since
	Events   uint64    // published
	Refused  uint64    // calls with events or definitions that were rejected
	Failures uint64    // runs that have failed
	Newest   time.Time // when it has published the newest events; zero: none yet

	Suspect map[string]uint64 // how often it looked wrong, by the word of a Suspect
}

// Stats returns the current counters.
func (s *Supervisor) Stats() Stats {
	st := Stats{Events: s.events.Load(), Refused: s.rejected.Load(), Failures: s.failures.Load(), Suspect: s.checker.counts()}
	if at := s.newest.Load(); at != 0 {
		st.Newest, st.Up = time.Unix(0, at), !s.down.Load() && !s.allDown.Load()
	}
	return st
}

// Started returns a channel that is closed when the source has published its first events, or has
// failed or ended before.
func (s *Supervisor) Started() <-chan struct{} { return s.started }

// Run runs the source until ctx ends, the source returns nil, or it fails with an error whose
// method Final returns true. After any other error it restarts the source.
func (s *Supervisor) Run(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { s.watchStalls(watching) })
	defer watch.Wait()
	defer stop()
	backoff := firstBackoff
	for {
		began := time.Now()
		err := s.runOnce(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			s.log.Info("feed ended")
			s.markDown(reasonFeedEnded)
			s.registry.release(s)
			return nil
		case isFinal(err):
			s.log.Error("feed failed permanently", "error", err)
			s.markDown(reasonFeedError)
			s.registry.release(s)
			return nil
		}
		if time.Since(began) > healthyAfter {
			backoff = firstBackoff
		}
		wait := rand.N(backoff)
		backoff = min(2*backoff, maxBackoff)
		s.failures.Add(1)
		s.log.Error("feed failed", "error", err, "again_in", wait.Round(time.Millisecond))
		s.markDown(reasonFeedError)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// runOnce runs the source until it returns. It reports a panic of the source as an error.
func (s *Supervisor) runOnce(ctx context.Context) (err error) {
	defer s.markStarted()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			s.log.Error("feed panicked", "error", err, "stack", string(debug.Stack()))
		}
	}()
	s.checker.restart()
	return s.source.Run(ctx, s)
}

// isFinal reports whether a retry after err would fail in the same way.
func isFinal(err error) bool {
	var f interface{ Final() bool }
	return errors.As(err, &f) && f.Final()
}

// Define lists an instrument. It fails where another source has the instrument.
func (s *Supervisor) Define(in market.Instrument) (market.Handle, error) {
	h, err := s.registry.define(s, in)
	if err != nil {
		s.noteRefused(err)
		return h, err
	}
	s.checker.define(h, &in)
	return h, nil
}

// Publish passes events on. The first events after a failure mark the source as up.
func (s *Supervisor) Publish(events []market.Event) error {
	if s.down.Load() && s.down.CompareAndSwap(true, false) {
		s.log.Info("feed is back")
		s.registry.markUp(s)
	}
	s.events.Add(uint64(len(events)))
	now := time.Now()
	s.newest.Store(now.UnixNano())
	defer s.markStarted()
	if list := s.checker.check(events, now); len(list) > 0 {
		return s.publishSuspect(events, list)
	}
	return s.publish(events)
}

func (s *Supervisor) publish(events []market.Event) error {
	err := s.registry.publish(s, events)
	if err != nil {
		s.noteRefused(err)
	}
	return err
}

// publishSuspect logs what looks wrong in a batch, and publishes the batch without the events that
// are refused. A refused change of a book becomes a gap, so that the book is stale until its next
// snapshot.
func (s *Supervisor) publishSuspect(events []market.Event, list []suspicion) error {
	refused := map[int]*market.Refused{}
	var errs []error
	for _, x := range list {
		s.logSuspect(&x)
		if s.checker.refuse[x.kind] {
			r := &market.Refused{Index: x.index, ID: x.id, Reason: x.kind.String(), Detail: x.detail}
			refused[x.index], errs = r, append(errs, r)
		}
	}
	if len(refused) == 0 {
		return s.publish(events)
	}
	s.rejected.Add(1)
	i := -1
	err := publishFiltered(s.publish, events, func(e *market.Event) bool {
		i++
		r := refused[i]
		if r != nil && r.Reason == FutureTime.String() && changesBook(e.Kind) {
			*e, r = market.Event{Kind: market.KindGap, Handle: e.Handle, Reason: r.Reason}, nil
		}
		return r == nil
	})
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return errors.Join(append(errs, joined.Unwrap()...)...) // flat, as sources read it
	}
	return errors.Join(append(errs, err)...)
}

func changesBook(k market.Kind) bool { return k != market.KindGap && channelOf(k) == bookChannel }

// logSuspect logs what looks wrong, if a line is due.
func (s *Supervisor) logSuspect(x *suspicion) {
	if x.count == 0 {
		return
	}
	log := s.log
	if x.kind != Stall {
		log = log.With("instrument", x.id.String())
	}
	log.Warn("feed looks wrong", "reason", x.kind.String(), "error", x.detail, "count", x.count)
}

// stallLook is how often a Supervisor looks whether its source stalls, at most.
const stallLook = time.Second

// watchStalls counts and logs the stalls of the source until ctx ends. A stall begins when the
// source is up, one of its markets trades, and nothing was published for a time. It is counted
// once.
func (s *Supervisor) watchStalls(ctx context.Context) {
	limit := s.checker.cfg.Stall
	if limit <= 0 {
		return
	}
	look := time.NewTicker(max(stallLook, limit/10))
	defer look.Stop()
	var since, counted time.Time // since when events are expected, and those after which a stall was counted
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		now, st := time.Now(), s.Stats()
		if !st.Up || !s.checker.live() || !s.registry.trading(s) {
			since = time.Time{}
			continue
		}
		if since.IsZero() {
			since = now
		}
		newest := st.Newest
		if since.After(newest) {
			newest = since
		}
		if silent := now.Sub(newest); silent >= limit && !counted.Equal(newest) {
			counted = newest
			x := s.checker.stalled(silent, now)
			s.logSuspect(&x)
		}
	}
}

func (s *Supervisor) markStarted() { s.startOnce.Do(func() { close(s.started) }) }

// markDown marks the source as down, once until it is back.
func (s *Supervisor) markDown(reason string) {
	if !s.down.Swap(true) {
		s.registry.markDown(s, reason)
	}
}

// noteRefused counts rejected events and logs the count and the first error from time to time.
func (s *Supervisor) noteRefused(err error) {
	s.rejected.Add(1)
	s.mu.Lock()
	s.refused++
	n := s.refused
	due := time.Since(s.lastLogged) >= refusedEvery
	if due {
		s.refused, s.lastLogged = 0, time.Now()
	}
	s.mu.Unlock()
	if !due {
		return
	}
	var first *market.Refused
	if errors.As(err, &first) {
		err = first
	}
	s.log.Warn("feed published rejected events", "count", n, "error", err)
}
