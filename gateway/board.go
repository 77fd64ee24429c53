package gateway

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/market"
)

// board is what the supervisors of all feeds share: which feed an instrument belongs
// to, and which feeds of a market are up. An instrument has one feed, since the books
// and trades of two would be mixed. A market may have several; it is down as a whole
// only when none of them is up.
type board struct {
	mu     sync.Mutex // held while a status of a whole market is published: they keep their order
	owners map[market.InstrumentID]owned
	venues map[string]*fed
	down   func(market string) bool
	live   atomic.Bool // some market has a feed that is up
}

// owned is an instrument of a feed.
type owned struct {
	feed   *supervisor
	handle market.Handle
}

// fed is a market that feeds give events of.
type fed struct {
	handle market.Handle        // of *|MARKET|*
	feeds  map[*supervisor]bool // false: the source itself said that it is down there
	told   bool                 // feed_down was published, in an earlier run of the program too
}

// newBoard makes a board. down says whether a market's feed was down when it was last told of, before a restart too.
func newBoard(down func(market string) bool) *board {
	return &board{down: down, owners: map[market.InstrumentID]owned{}, venues: map[string]*fed{}}
}

// up says whether any feed of the market is.
func (v *fed) up() bool {
	for f, says := range v.feeds {
		if says && !f.off {
			return true
		}
	}
	return false
}

// look notes whether any market has a feed that is up. b.mu is held.
func (b *board) look() {
	for _, v := range b.venues {
		if v.up() {
			b.live.Store(true)
			return
		}
	}
	b.live.Store(false)
}

// errOwned says that another feed has the instrument.
var errOwned = errors.New("belongs to another feed")

// define lists an instrument for a feed.
func (b *board) define(s *supervisor, in market.Instrument) (market.Handle, error) {
	if in.ID.IsPattern() {
		return s.sink.Define(in)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.look()
	if o, ok := b.owners[in.ID]; ok && o.feed != s {
		return 0, fmt.Errorf("%s %w: %s", in.ID, errOwned, o.feed.feed.Name)
	}
	h, err := s.sink.Define(in)
	if err != nil {
		return h, err
	}
	b.owners[in.ID] = owned{feed: s, handle: h}
	v := b.venues[in.ID.Market]
	if v == nil {
		whole, err := s.sink.Define(wholeMarket(in.ID.Market))
		if err != nil {
			return h, fmt.Errorf("define market %s: %w", in.ID.Market, err)
		}
		v = &fed{handle: whole, feeds: map[*supervisor]bool{}, told: b.down(in.ID.Market)}
		b.venues[in.ID.Market] = v
	}
	if _, ok := v.feeds[s]; !ok {
		v.feeds[s] = true
		b.publish(s, b.change(v, ""))
	}
	return h, nil
}

// change is the status to publish where a market has come up or gone down since it was last told.
func (b *board) change(v *fed, reason string) []market.Event {
	if v.up() != v.told {
		return nil
	}
	v.told = !v.told
	e := market.Event{Kind: market.KindStatus, Handle: v.handle, Phase: market.FeedUp}
	if v.told {
		e.Phase, e.Reason = market.FeedDown, reason
	}
	return []market.Event{e}
}

func (b *board) publish(s *supervisor, events []market.Event) {
	if len(events) == 0 {
		return
	}
	if err := s.sink.Publish(events); err != nil {
		s.log.Error("feed status not published", "error", err)
	}
}

// off notes that a feed failed or ended. Its instruments in markets that others still feed have a
// gap; of the other markets feed_down says so.
func (b *board) off(s *supervisor, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.look()
	if s.off {
		return
	}
	s.off = true
	var events []market.Event
	for _, name := range slices.Sorted(maps.Keys(b.venues)) {
		v := b.venues[name]
		if _, ours := v.feeds[s]; !ours {
			continue
		}
		if v.up() {
			events = append(events, b.gaps(s, name, reason)...)
		}
		events = append(events, b.change(v, reason)...)
	}
	b.publish(s, events)
}

func (b *board) gaps(s *supervisor, name, reason string) (events []market.Event) {
	for id, o := range b.owners {
		if o.feed == s && id.Market == name {
			events = append(events, market.Event{Kind: market.KindGap, Handle: o.handle, Reason: reason})
		}
	}
	return events
}

// on notes that a feed gives events again.
func (b *board) on(s *supervisor) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.look()
	s.off = false
	var events []market.Event
	for _, name := range slices.Sorted(maps.Keys(b.venues)) {
		if v := b.venues[name]; v.up() {
			events = append(events, b.change(v, "")...)
		}
	}
	b.publish(s, events)
}

// leave gives up the instruments of a feed that has ended for good, so that another may have them.
func (b *board) leave(s *supervisor) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.look()
	maps.DeleteFunc(b.owners, func(_ market.InstrumentID, o owned) bool { return o.feed == s })
	for _, v := range b.venues {
		delete(v.feeds, s)
	}
}

// pass publishes a batch of a feed, without what the feed says of a market being down
// or up where other feeds decide that too.
func (b *board) pass(s *supervisor, events []market.Event) error {
	if !slices.ContainsFunc(events, isFeedStatus) {
		return s.sink.Publish(events)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.look()
	return publishSome(s.sink, events, func(e *market.Event) bool {
		if !isFeedStatus(*e) {
			return true
		}
		for _, v := range b.venues {
			if v.handle != e.Handle {
				continue
			}
			v.feeds[s] = e.Phase == market.FeedUp
			return len(b.change(v, "")) > 0
		}
		return true // of one instrument
	})
}

func isFeedStatus(e market.Event) bool {
	return e.Kind == market.KindStatus && (e.Phase == market.FeedDown || e.Phase == market.FeedUp)
}

// publishSome publishes those events of a batch that edit wants, as edit leaves them; the
// batch itself stays as it is. What is refused is numbered as in the batch.
func publishSome(sink feed.Sink, events []market.Event, edit func(*market.Event) bool) error {
	some := make([]market.Event, 0, len(events))
	places := make([]int, 0, len(events))
	for i := range events {
		e := events[i]
		if edit(&e) {
			some = append(some, e)
			places = append(places, i)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return renumber(sink.Publish(some), places)
}

// renumber gives refused events the places that they had in a longer batch.
func renumber(err error, places []int) error {
	if err == nil {
		return nil
	}
	errs := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		errs = slices.Clone(joined.Unwrap())
	}
	for i, e := range errs {
		var r *market.Refused
		if !errors.As(e, &r) || r.Index < 0 || r.Index >= len(places) {
			return err
		}
		moved := *r
		moved.Index = places[r.Index]
		errs[i] = &moved
	}
	return errors.Join(errs...)
}
