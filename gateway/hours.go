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

// hours owns the trading status of the markets that have a schedule. It stands before
// the hub as a feed.Sink: open and closed are what the schedule says, whatever a feed
// does; a halt or another phase of a feed shows as long as the market is not closed,
// and ends when the feed says open.
type hours struct {
	sink feed.Sink
	log  *slog.Logger

	mu     sync.Mutex // held while a status is published: they keep their order
	venues map[string]*venue
	listed map[market.Handle]*listed
}

// venue is a market with a schedule.
type venue struct {
	market market.Market
	loc    *time.Location
	terms  map[string]*term // "" is the market as a whole
}

// term is what keeps one timetable: a settlement term may have holidays of its own.
type term struct {
	known   bool
	status  status // as last published
	members []*listed
}

// status is what a status message says.
type status struct {
	phase  market.Phase
	reason string
	until  int64
}

// listed is an instrument, or a market as a whole.
type listed struct {
	handle market.Handle
	term   *term
	own    status // what the feed said of it; NoPhase: nothing but what the hours say
	shown  status // as last published; NoPhase: nothing yet
}

// due is the status that is right now.
func (l *listed) due() status {
	if l.own.phase == market.NoPhase || l.term.status.phase == market.Closed {
		return l.term.status
	}
	return l.own
}

// newHours defines the markets with a schedule in sink; nil where there are none.
func newHours(markets []market.Market, sink feed.Sink, log *slog.Logger) (*hours, error) {
	h := &hours{sink: sink, log: log, venues: map[string]*venue{}, listed: map[market.Handle]*listed{}}
	for _, m := range markets {
		if len(m.Schedule.Sessions) == 0 && len(m.Schedule.Holidays) == 0 && len(m.Schedule.Weekdays) == 0 {
			continue // always open
		}
		if m.FeedTold {
			continue
		}
		loc, err := time.LoadLocation(m.Timezone)
		if err != nil {
			return nil, fmt.Errorf("market %s: time zone %q: %w", m.ID, m.Timezone, err)
		}
		whole, err := sink.Define(wholeMarket(m.ID))
		if err != nil {
			return nil, fmt.Errorf("market %s: %w", m.ID, err)
		}
		t := &term{}
		h.venues[m.ID] = &venue{market: m, loc: loc, terms: map[string]*term{"": t}}
		h.add(t, whole)
	}
	if len(h.venues) == 0 {
		return nil, nil
	}
	return h, nil
}

func (h *hours) add(t *term, handle market.Handle) *listed {
	l := &listed{handle: handle, term: t}
	t.members = append(t.members, l)
	h.listed[handle] = l
	return l
}

// Define lists an instrument with the status that its market's hours give it.
func (h *hours) Define(in market.Instrument) (market.Handle, error) {
	v := h.venues[in.ID.Market]
	if v == nil || in.ID.IsPattern() {
		return h.sink.Define(in)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t := v.terms[in.ID.Term]
	if t == nil {
		t = &term{known: true}
		t.status, _ = v.at(time.Now(), in.ID.Term)
		v.terms[in.ID.Term] = t
	}
	l := listed{term: t, own: status{phase: ofFeed(in.Phase)}}
	in.Phase = l.due().phase
	handle, err := h.sink.Define(in)
	if err != nil {
		return handle, err
	}
	if h.listed[handle] == nil {
		known := h.add(t, handle)
		known.own, known.shown = l.own, l.due()
	}
	return handle, nil
}

// ofFeed is the phase of a feed, where that is the feed's to tell.
func ofFeed(p market.Phase) market.Phase {
	if p == market.Open || p == market.Closed {
		return market.NoPhase
	}
	return p
}

// Publish hands events on, with the statuses that are right by the hours.
func (h *hours) Publish(events []market.Event) error {
	if !slices.ContainsFunc(events, isPhase) {
		return h.sink.Publish(events)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return publishSome(h.sink, events, func(e *market.Event) bool {
		l := h.listed[e.Handle]
		if l == nil || !isPhase(*e) {
			return true
		}
		l.own = status{phase: ofFeed(e.Phase), reason: e.Reason, until: e.Until}
		if l.own.phase == market.NoPhase {
			l.own = status{}
		}
		due := l.due()
		if !l.term.known || due == l.shown {
			return false
		}
		l.shown = due
		e.Phase, e.Reason, e.Until = due.phase, due.reason, due.until
		return true
	})
}

// isPhase says whether an event is a status other than that of the feed itself.
func isPhase(e market.Event) bool { return e.Kind == market.KindStatus && !e.Phase.OfFeed() }

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

// at is the status of a term by the timetable, and when it next changes.
func (v *venue) at(now time.Time, name string) (status, time.Time) {
	phase, next, reason := v.market.Schedule.At(now, v.loc, name)
	s := status{phase: phase, reason: reason}
	if !next.IsZero() {
		s.until = next.UnixNano()
	}
	return s, next
}

// publish tells what has changed by now and returns when to look again.
func (h *hours) publish(now time.Time) time.Time {
	again := now.Add(lookAgain)
	var events []market.Event
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(h.venues)) {
		v := h.venues[id]
		for _, name := range slices.Sorted(maps.Keys(v.terms)) {
			t := v.terms[name]
			s, next := v.at(now, name)
			if !next.IsZero() && next.Before(again) {
				again = next
			}
			if t.known && s.phase == t.status.phase && s.reason == t.status.reason {
				continue
			}
			t.known, t.status = true, s
			for _, l := range t.members {
				due := l.due()
				if due == l.shown {
					continue
				}
				l.shown = due
				events = append(events, market.Event{Kind: market.KindStatus, Handle: l.handle,
					Time: now.UnixNano(), Phase: due.phase, Reason: due.reason, Until: due.until})
			}
			if name == "" {
				h.log.Info("market status", "market", id, "phase", s.phase.String(), "reason", s.reason, "until", next)
			}
		}
	}
	if len(events) > 0 {
		if err := h.sink.Publish(events); err != nil {
			h.log.Error("market status not published", "error", err)
		}
	}
	return again
}
