package gateway

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

// Feed is a source of market events. It is started again when its Run fails, unless the
// error has a method Final() bool that says true: another try would end no better. An
// instrument has one feed, the first that defines it; a market may have several.
type Feed struct {
	Name   string // for the log
	Source feed.Source
	// Late says that the source may have nothing to give for long, such as one that
	// waits for somebody to connect: a gateway does not wait for it when it starts.
	Late bool
}

// Reasons of the market-wide status feed_down.
const (
	reasonFeedError = "feed_error"
	reasonFeedEnded = "feed_ended"
)

const (
	// A source that failed is started again after a random part of a second at
	// first, and of half a minute in the end.
	firstPause = time.Second
	lastPause  = 30 * time.Second
	// One that ran this long is taken as well again.
	wellAfter = time.Minute
	// What was refused is told in the log at most this often.
	refusedEvery = 10 * time.Second
)

// supervisor keeps a source running. It stands between the source and the hub, so that it
// knows which markets the source feeds: those are told when it fails, and when
// it gives events again. It is the source's feed.Sink.
type supervisor struct {
	feed  Feed
	sink  feed.Sink
	board *board
	log   *slog.Logger

	given  chan struct{} // closed when the source has given something, or has failed or ended first
	giving sync.Once
	down   atomic.Bool // the board was told that it is off
	off    bool        // guarded by board.mu

	mu       sync.Mutex
	refused  int // calls since it was last told
	lastTold time.Time
}

func newSupervisor(f Feed, sink feed.Sink, b *board, log *slog.Logger) *supervisor {
	return &supervisor{feed: f, sink: sink, board: b, log: log.With("feed", f.Name), given: make(chan struct{})}
}

// Run runs the source again and again until ctx ends, the source has no more, or trying
// again is of no use.
func (s *supervisor) Run(ctx context.Context) error {
	pause := firstPause
	for {
		began := time.Now()
		err := s.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			s.log.Info("feed ended: it has no more")
			s.tell(reasonFeedEnded)
			s.board.leave(s)
			return nil
		}
		if isFinal(err) {
			s.log.Error("feed ended: it failed, and trying again would not help", "error", err)
			s.tell(reasonFeedError)
			s.board.leave(s)
			return nil
		}
		if time.Since(began) > wellAfter {
			pause = firstPause
		}
		wait := rand.N(pause)
		pause = min(2*pause, lastPause)
		s.log.Error("feed failed", "error", err, "again_in", wait.Round(time.Millisecond))
		s.tell(reasonFeedError)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// once runs the source until it returns. A panic in it is its own failure and
// nobody else's.
func (s *supervisor) once(ctx context.Context) (err error) {
	defer s.give()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			s.log.Error("feed panicked", "error", err, "stack", string(debug.Stack()))
		}
	}()
	return s.feed.Source.Run(ctx, s)
}

// isFinal says whether a source's error stays the same however often it is tried.
func isFinal(err error) bool {
	var f interface{ Final() bool }
	return errors.As(err, &f) && f.Final()
}

// Define hands an instrument on to the hub, unless another feed has it.
func (s *supervisor) Define(in market.Instrument) (market.Handle, error) {
	h, err := s.board.define(s, in)
	if err != nil {
		s.noteRefused(err)
	}
	return h, err
}

// wholeMarket is the definition that stands for a market as a whole.
func wholeMarket(id string) market.Instrument {
	return market.Instrument{ID: market.InstrumentID{Symbol: market.Any, Market: id, Term: market.Any}}
}

// Publish hands events on to the hub. The first ones after a failure end it.
func (s *supervisor) Publish(events []market.Event) error {
	if s.down.Load() && s.down.CompareAndSwap(true, false) {
		s.log.Info("feed is back")
		s.board.on(s)
	}
	err := s.board.pass(s, events)
	if err != nil {
		s.noteRefused(err)
	}
	s.give()
	return err
}

func (s *supervisor) give() { s.giving.Do(func() { close(s.given) }) }

// noteRefused tells of what the hub refused, now and then.
func (s *supervisor) noteRefused(err error) {
	s.mu.Lock()
	s.refused++
	n := s.refused
	due := time.Since(s.lastTold) >= refusedEvery
	if due {
		s.refused, s.lastTold = 0, time.Now()
	}
	s.mu.Unlock()
	if due {
		var first *market.Refused
		if errors.As(err, &first) {
			err = first
		}
		s.log.Warn("feed gave what was refused", "count", n, "error", err)
	}
}

// tell has the markets of the source told that it is down.
func (s *supervisor) tell(reason string) {
	if !s.down.Swap(true) {
		s.board.off(s, reason)
	}
}
