package feeds

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ruedahq/rueda/market"
)

// Registry records which source has an instrument and which sources of a market are up. An
// instrument has one source, the first that defines it, because the books and trades of two would
// be mixed. A market may have several; it is down when none of them is up.
type Registry struct {
	mu      sync.Mutex // held while a market-wide status is published, so that statuses keep their order
	owners  map[market.InstrumentID]owner
	markets map[string]*marketFeeds
	phase   func(market string) market.Phase
	live    atomic.Bool // some market has a source that is up
}

// owner is the source of an instrument.
type owner struct {
	feed   *Supervisor
	handle market.Handle
}

// marketFeeds are the sources of one market.
type marketFeeds struct {
	handle       market.Handle        // of *|MARKET|*
	feeds        map[*Supervisor]bool // false: the source itself published feed_down
	reportedDown bool                 // the last status was feed_down, possibly before a restart
}

// NewRegistry returns an empty Registry. phase returns the last status of a market, also before a
// restart, or NoPhase.
func NewRegistry(phase func(market string) market.Phase) *Registry {
	return &Registry{phase: phase, owners: map[market.InstrumentID]owner{}, markets: map[string]*marketFeeds{}}
}

// Live reports whether any market has a source that is up.
func (r *Registry) Live() bool { return r.live.Load() }

// up reports whether any source of the market is up. Registry.mu is held.
func (m *marketFeeds) up() bool {
	for f, says := range m.feeds {
		if says && !f.off {
			return true
		}
	}
	return false
}

// updateLive updates live, and whether s has reported all its markets down. r.mu is held.
func (r *Registry) updateLive(s *Supervisor) {
	live, markets, up := false, 0, 0
	for _, m := range r.markets {
		live = live || m.up()
		if says, ok := m.feeds[s]; ok {
			markets++
			if says {
				up++
			}
		}
	}
	r.live.Store(live)
	s.allDown.Store(markets > 0 && up == 0)
}

// wholeMarket returns the definition of a market as a whole.
func wholeMarket(id string) market.Instrument {
	return market.Instrument{ID: market.InstrumentID{Symbol: market.Any, Market: id, Term: market.Any}}
}

// errOwned reports that another source has the instrument.
var errOwned = errors.New("belongs to another feed")

// define lists an instrument of a source, and its market with the first instrument.
func (r *Registry) define(s *Supervisor, in market.Instrument) (market.Handle, error) {
	if in.ID.IsPattern() {
		return s.sink.Define(in)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.updateLive(s)
	if o, ok := r.owners[in.ID]; ok && o.feed != s {
		return 0, fmt.Errorf("%s %w: %s", in.ID, errOwned, o.feed.name)
	}
	h, err := s.sink.Define(in)
	if err != nil {
		return h, err
	}
	r.owners[in.ID] = owner{feed: s, handle: h}
	m := r.markets[in.ID.Market]
	if m == nil {
		all := wholeMarket(in.ID.Market)
		if in.VirtualClock { // a feed begins and ends in the time of its events
			all.VirtualClock, all.Listed = true, in.Listed
		}
		whole, err := s.sink.Define(all)
		if err != nil {
			return h, fmt.Errorf("define market %s: %w", in.ID.Market, err)
		}
		m = &marketFeeds{handle: whole, feeds: map[*Supervisor]bool{}, reportedDown: r.phase(in.ID.Market) == market.FeedDown}
		r.markets[in.ID.Market] = m
	}
	if _, ok := m.feeds[s]; !ok {
		m.feeds[s] = true
		publishStatus(s, m.transition(""))
	}
	return h, nil
}

// transition returns the status to publish if the market has gone down or come up since the last
// status. Otherwise it returns none.
func (m *marketFeeds) transition(reason string) []market.Event {
	if m.up() != m.reportedDown {
		return nil
	}
	m.reportedDown = !m.reportedDown
	e := market.Event{Kind: market.KindStatus, Handle: m.handle, Phase: market.FeedUp}
	if m.reportedDown {
		e.Phase, e.Reason = market.FeedDown, reason
	}
	return []market.Event{e}
}

func publishStatus(s *Supervisor, events []market.Event) {
	if len(events) == 0 {
		return
	}
	if err := s.sink.Publish(events); err != nil {
		s.log.Error("feed status not published", "error", err)
	}
}

// markDown records that a source failed or ended. Markets without another source get feed_down; in
// the others each instrument of the source gets a gap.
func (r *Registry) markDown(s *Supervisor, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.updateLive(s)
	if s.off {
		return
	}
	s.off = true
	var events []market.Event
	for _, name := range slices.Sorted(maps.Keys(r.markets)) {
		m := r.markets[name]
		if _, ok := m.feeds[s]; !ok {
			continue
		}
		if m.up() {
			events = append(events, r.gaps(s, name, reason)...)
		}
		events = append(events, m.transition(reason)...)
	}
	publishStatus(s, events)
}

// gaps returns a gap of each instrument that a source has in a market.
func (r *Registry) gaps(s *Supervisor, name, reason string) (events []market.Event) {
	for id, o := range r.owners {
		if o.feed == s && id.Market == name {
			events = append(events, market.Event{Kind: market.KindGap, Handle: o.handle, Reason: reason})
		}
	}
	return events
}

// markUp records that a source publishes events again.
func (r *Registry) markUp(s *Supervisor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.updateLive(s)
	s.off = false
	var events []market.Event
	for _, name := range slices.Sorted(maps.Keys(r.markets)) {
		if m := r.markets[name]; m.up() {
			events = append(events, m.transition("")...)
		}
	}
	publishStatus(s, events)
}

// release gives up the instruments of a source that has ended for good, so that another source may
// define them.
func (r *Registry) release(s *Supervisor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.updateLive(s)
	maps.DeleteFunc(r.owners, func(_ market.InstrumentID, o owner) bool { return o.feed == s })
	for _, m := range r.markets {
		delete(m.feeds, s)
	}
}

// trading reports whether any market of a source trades now. A market without a status does.
func (r *Registry) trading(s *Supervisor) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, m := range r.markets {
		if _, ok := m.feeds[s]; !ok {
			continue
		}
		switch r.phase(name) {
		case market.NoPhase, market.Unknown, market.Open, market.Auction, market.Quoting:
			return true
		}
	}
	return false
}

// publish publishes a batch of a source. It leaves out a market-wide feed_down or feed_up of that
// source which other sources of the market contradict.
func (r *Registry) publish(s *Supervisor, events []market.Event) error {
	if !slices.ContainsFunc(events, isFeedStatus) {
		return s.sink.Publish(events)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.updateLive(s)
	return publishFiltered(s.sink.Publish, events, func(e *market.Event) bool {
		if !isFeedStatus(*e) {
			return true
		}
		for _, m := range r.markets {
			if m.handle != e.Handle {
				continue
			}
			m.feeds[s] = e.Phase == market.FeedUp
			return len(m.transition("")) > 0
		}
		return true // a status of one instrument
	})
}

func isFeedStatus(e market.Event) bool {
	return e.Kind == market.KindStatus && (e.Phase == market.FeedDown || e.Phase == market.FeedUp)
}

// publishFiltered publishes the events of a batch for which edit returns true, as edit changed
// them. The batch itself stays as it is, and refused events are numbered as in the batch.
func publishFiltered(publish func([]market.Event) error, events []market.Event, edit func(*market.Event) bool) error {
	some := make([]market.Event, 0, len(events))
	indexes := make([]int, 0, len(events))
	for i := range events {
		e := events[i]
		if edit(&e) {
			some = append(some, e)
			indexes = append(indexes, i)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return renumber(publish(some), indexes)
}

// renumber gives refused events their indexes in the batch that was filtered.
func renumber(err error, indexes []int) error {
	if err == nil {
		return nil
	}
	errs := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		errs = slices.Clone(joined.Unwrap())
	}
	for i, e := range errs {
		var refused *market.Refused
		if !errors.As(e, &refused) || refused.Index < 0 || refused.Index >= len(indexes) {
			return err
		}
		renumbered := *refused
		renumbered.Index = indexes[refused.Index]
		errs[i] = &renumbered
	}
	return errors.Join(errs...)
}
