package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/market"
)

// hours publishes the trading status of the markets that have a schedule, for feeds
// that give none. It stands before the hub as a feed.Sink, so that an
// instrument is listed with the status of that moment.
type hours struct {
	sink feed.Sink
	log  *slog.Logger

	mu     sync.Mutex
	venues map[string]*venue
}

// venue is a market with a schedule.
type venue struct {
	market market.Market
	loc    *time.Location
	whole  market.Handle
	terms  map[string]*term // "" is the market as a whole
}

// term is what keeps one timetable: a settlement term may have holidays of its own.
type term struct {
	phase   market.Phase // as last published
	reason  string
	handles []market.Handle
}

// newHours defines the markets with a schedule in sink; nil where there are none.
func newHours(markets []market.Market, sink feed.Sink, log *slog.Logger) (*hours, error) {
	h := &hours{sink: sink, log: log, venues: map[string]*venue{}}
	for _, m := range markets {
		if len(m.Schedule.Sessions) == 0 && len(m.Schedule.Holidays) == 0 && len(m.Schedule.Weekdays) == 0 {
			continue // always open
		}
		loc, err := time.LoadLocation(m.Timezone)
		if err != nil {
			return nil, fmt.Errorf("market %s: time zone %q: %w", m.ID, m.Timezone, err)
		}
		whole, err := sink.Define(wholeMarket(m.ID))
		if err != nil {
			return nil, fmt.Errorf("market %s: %w", m.ID, err)
		}
		h.venues[m.ID] = &venue{market: m, loc: loc, whole: whole,
			terms: map[string]*term{"": {handles: []market.Handle{whole}}}}
	}
	if len(h.venues) == 0 {
		return nil, nil
	}
	return h, nil
}

// Define lists an instrument with the status that its market's hours give it.
func (h *hours) Define(in market.Instrument) (market.Handle, error) {
	v := h.venues[in.ID.Market]
	if v == nil || in.ID.IsPattern() {
		return h.sink.Define(in)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	phase, _, reason := v.market.Schedule.At(time.Now(), v.loc, in.ID.Term)
	if in.Phase == market.NoPhase {
		in.Phase = phase
	}
	handle, err := h.sink.Define(in)
	if err != nil {
		return handle, err
	}
	t := v.terms[in.ID.Term]
	if t == nil {
		t = &term{phase: phase, reason: reason}
		v.terms[in.ID.Term] = t
	}
	if !slices.Contains(t.handles, handle) {
		t.handles = append(t.handles, handle)
	}
	return handle, nil
}

// Publish hands events on.
func (h *hours) Publish(events []market.Event) error { return h.sink.Publish(events) }

// The wall clock may be set, or the machine sleep: the schedule is looked up this
// often even where no change is due.
const lookAgain = time.Minute

// Run publishes each change when it comes, until ctx ends.
func (h *hours) Run(ctx context.Context) error {
	for {
		now := time.Now()
		wait := min(h.publish(now).Sub(now), lookAgain)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(wait, time.Millisecond)):
		}
	}
}

// publish tells what has changed by now and returns when to look again.
func (h *hours) publish(now time.Time) time.Time {
	again := now.Add(lookAgain)
	var events []market.Event
	h.mu.Lock()
	for _, id := range slices.Sorted(maps.Keys(h.venues)) {
		v := h.venues[id]
		for _, name := range slices.Sorted(maps.Keys(v.terms)) {
			t := v.terms[name]
			phase, next, reason := v.market.Schedule.At(now, v.loc, name)
			until := int64(0)
			if !next.IsZero() {
				until = next.UnixNano()
				if next.Before(again) {
					again = next
				}
			}
			if phase == t.phase && reason == t.reason {
				continue
			}
			t.phase, t.reason = phase, reason
			for _, handle := range t.handles {
				events = append(events, market.Event{Kind: market.KindStatus, Handle: handle,
					Time: now.UnixNano(), Phase: phase, Reason: reason, Until: until})
			}
			if name == "" {
				h.log.Info("market status", "market", id, "phase", phase.String(), "reason", reason, "until", next)
			}
		}
	}
	h.mu.Unlock()
	if len(events) > 0 {
		if err := h.sink.Publish(events); err != nil {
			h.log.Error("market status not published", "error", err)
		}
	}
	return again
}
