package feeds

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

// Schedule publishes the trading status of the markets that have hours. It is a feed.Sink before
// the hub: the schedule decides when a market is open or closed. A halt or another phase that a
// source publishes shows while the market is not closed, and ends when the source publishes open.
type Schedule struct {
	sink feed.Sink
	log  *slog.Logger
	kick chan struct{} // has an element after a change of hours

	mu      sync.Mutex // held while a status is published, so that statuses keep their order
	markets map[string]*scheduledMarket
	listed  map[market.Handle]*listing
}

// scheduledMarket is a market with hours.
type scheduledMarket struct {
	market market.Market
	loc    *time.Location
	terms  map[string]*term // "" is the market as a whole
}

// term is the timetable of a settlement term, which may have holidays of its own.
type term struct {
	known    bool
	status   status // as last published
	listings []*listing
}

// status is the content of a status message.
type status struct {
	phase  market.Phase
	reason string
	until  int64
}

// listing is an instrument, or a market as a whole.
type listing struct {
	handle     market.Handle
	term       *term
	fromSource status // NoPhase: the schedule alone decides
	published  status // the last one; NoPhase: none yet
}

// current returns the status that holds now.
func (l *listing) current() status {
	if l.fromSource.phase == market.NoPhase || l.term.status.phase == market.Closed {
		return l.term.status
	}
	return l.fromSource
}

// Scheduled reports whether a Schedule decides when a market is open: it has hours, and its feed
// does not send the status.
func Scheduled(m *market.Market) bool {
	h := &m.Schedule
	return !m.StatusFromFeed && len(h.Sessions)+len(h.Holidays)+len(h.Weekdays) > 0
}

// NewSchedule defines the markets that have hours in sink. It returns nil if there are none.
func NewSchedule(markets []market.Market, sink feed.Sink, log *slog.Logger) (*Schedule, error) {
	s := &Schedule{sink: sink, log: log, kick: make(chan struct{}, 1), markets: map[string]*scheduledMarket{}, listed: map[market.Handle]*listing{}}
	for _, m := range markets {
		if !Scheduled(&m) {
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
		s.markets[m.ID] = &scheduledMarket{market: m, loc: loc, terms: map[string]*term{"": t}}
		s.add(t, whole)
	}
	if len(s.markets) == 0 {
		return nil, nil
	}
	return s, nil
}

func (s *Schedule) add(t *term, handle market.Handle) *listing {
	l := &listing{handle: handle, term: t}
	t.listings = append(t.listings, l)
	s.listed[handle] = l
	return l
}

// Define lists an instrument with the status that the hours of its market give it.
func (s *Schedule) Define(in market.Instrument) (market.Handle, error) {
	m := s.markets[in.ID.Market]
	if m == nil || in.ID.IsPattern() {
		return s.sink.Define(in)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := m.terms[in.ID.Term]
	if t == nil {
		t = &term{known: true}
		t.status, _ = m.statusAt(time.Now(), in.ID.Term)
		m.terms[in.ID.Term] = t
	}
	l := listing{term: t, fromSource: status{phase: sourcePhase(in.Phase)}}
	in.Phase = l.current().phase
	handle, err := s.sink.Define(in)
	if err != nil {
		return handle, err
	}
	if s.listed[handle] == nil {
		added := s.add(t, handle)
		added.fromSource, added.published = l.fromSource, l.current()
	}
	return handle, nil
}

// SetHours replaces the hours of a market that NewSchedule got. Run publishes the statuses that
// change. Any goroutine may call it.
func (s *Schedule) SetHours(id string, hours market.Schedule) {
	s.mu.Lock()
	m := s.markets[id]
	m.market.Schedule = hours
	for _, t := range m.terms {
		t.known = false
	}
	s.mu.Unlock()
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// sourcePhase returns p if a source may decide it, else NoPhase: open and closed are the
// schedule's, and a source that states unknown decides nothing.
func sourcePhase(p market.Phase) market.Phase {
	if p == market.Open || p == market.Closed || p == market.Unknown {
		return market.NoPhase
	}
	return p
}

// Publish passes events on, with their statuses corrected by the hours.
func (s *Schedule) Publish(events []market.Event) error {
	if !slices.ContainsFunc(events, isPhase) {
		return s.sink.Publish(events)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return publishFiltered(s.sink.Publish, events, func(e *market.Event) bool {
		l := s.listed[e.Handle]
		if l == nil || !isPhase(*e) {
			return true
		}
		l.fromSource = status{phase: sourcePhase(e.Phase), reason: e.Reason, until: e.Until}
		if l.fromSource.phase == market.NoPhase {
			l.fromSource = status{}
		}
		now := l.current()
		if !l.term.known || now == l.published {
			return false
		}
		l.published = now
		e.Phase, e.Reason, e.Until = now.phase, now.reason, now.until
		return true
	})
}

// isPhase reports whether an event is a status other than feed_down and feed_up.
func isPhase(e market.Event) bool { return e.Kind == market.KindStatus && !e.Phase.OfFeed() }

// recheckEvery is how often the schedule is evaluated where no change is due: the wall clock may be
// set, or the machine suspended.
const recheckEvery = time.Minute

// Run publishes each change when it is due, until ctx ends.
func (s *Schedule) Run(ctx context.Context) error {
	for {
		now := time.Now()
		wait := min(s.publishChanges(now).Sub(now), recheckEvery)
		select {
		case <-ctx.Done():
			return nil
		case <-s.kick:
		case <-time.After(max(wait, time.Millisecond)):
		}
	}
}

// statusAt returns the status of a term at a time, and when it next changes.
func (m *scheduledMarket) statusAt(now time.Time, term string) (status, time.Time) {
	phase, next, reason := m.market.Schedule.At(now, m.loc, term)
	s := status{phase: phase, reason: reason}
	if !next.IsZero() {
		s.until = next.UnixNano()
	}
	return s, next
}

// publishChanges publishes what has changed by now, and returns when to look again.
func (s *Schedule) publishChanges(now time.Time) time.Time {
	next := now.Add(recheckEvery)
	var events []market.Event
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.markets)) {
		m := s.markets[id]
		for _, name := range slices.Sorted(maps.Keys(m.terms)) {
			t := m.terms[name]
			st, change := m.statusAt(now, name)
			if !change.IsZero() && change.Before(next) {
				next = change
			}
			if t.known && st.phase == t.status.phase && st.reason == t.status.reason {
				continue
			}
			t.known, t.status = true, st
			events = append(events, t.changes(now)...)
			if name == "" {
				s.log.Info("market status", "market", id, "phase", st.phase.String(), "reason", st.reason, "until", change)
			}
		}
	}
	if len(events) > 0 {
		if err := s.sink.Publish(events); err != nil {
			s.log.Error("market status not published", "error", err)
		}
	}
	return next
}

// changes returns a status of each listing of the term whose status is not what was published last.
func (t *term) changes(now time.Time) (events []market.Event) {
	for _, l := range t.listings {
		st := l.current()
		if st == l.published {
			continue
		}
		l.published = st
		events = append(events, market.Event{Kind: market.KindStatus, Handle: l.handle,
			Time: now.UnixNano(), Phase: st.phase, Reason: st.reason, Until: st.until})
	}
	return events
}
