package subscription

import (
	"github.com/ruedahq/rueda/internal/engine/deflate"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/state"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Shard is the part of the hub that belongs to one goroutine with connections. Only that goroutine
// calls methods of the shard and of its subscribers.
type Shard struct {
	Figures Figures

	hub *hub.Port

	views   map[*hub.Topic]*view
	subs    []*Subscriber
	venue   *view         // view of all market-wide statuses; nil without subscribers
	news    []*Subscriber // subscribers that got market-wide statuses since the last Turn
	fetched []*fetch      // finished reads of the journal; guarded by the hub's lock
	gates   []gate        // messages that wait for a commit; guarded by the hub's lock
	reaches []reach       // items that wait for a replica; guarded by the hub's lock

	// The present turn.
	turn    []*hub.Topic // reused
	ready   []*Subscriber
	next    int // index in ready
	entries []entry

	visited  int      // instruments that the present Gather has visited for snapshots
	replayed Replayed // see Subscriber.TakeReplayed

	spare []item // memory for the items of the present Subscribe

	round   uint64        // of the reports about the segments that the shard holds
	waiters []*Subscriber // subscribers with a wait

	noticing map[*Subscriber]struct{} // subscribers that remember notices

	transcoder wire.Transcoder
	scratch    []byte
	message    [1024]byte
}

// entry states that the present turn has messages for an item. The entries of a subscriber are
// linked.
type entry struct {
	item *item
	next int32 // index of the subscriber's next entry, from 1; 0: none
}

// NewShard adds a shard to a hub and returns it. The hub calls wake under its lock when the shard
// has something new. It calls wake again, with urgent, when many bytes of one topic wait. wake must
// not block and must not call back.
func NewShard(h *hub.Hub, wake func(urgent bool)) *Shard {
	s := &Shard{hub: h.NewPort(wake), views: make(map[*hub.Topic]*view), noticing: make(map[*Subscriber]struct{})}
	s.transcoder.Compress = new(deflate.Compressor).Append
	return s
}

// Open initializes a subscriber, which is in its host's memory. The host finds the subscriber by
// key.
func (s *Shard) Open(sub *Subscriber, key any) {
	*sub = Subscriber{shard: s, key: key, slot: int32(len(s.subs))}
	s.subs = append(s.subs, sub)
	if s.venue == nil {
		s.hub.Lock()
		defer s.hub.Unlock()
		s.venue = s.view(hub.Item{Channel: state.MarketStatus, ID: market.InstrumentID{Symbol: market.Any, Market: market.Any, Term: market.Any}})
		s.venue.prev = s.venue.tail
		s.hub.AddReader(s.venue.topic)
		s.hub.Published()
	}
}

// Turn notes what was published since the last Turn. After it, Next returns the subscribers that
// have something to gather.
func (s *Shard) Turn() {
	for s.Next() != nil { // ends a turn that the host left early
	}
	s.entries, s.Figures.Oldest = s.entries[:0], 0
	s.reportHeld()
	fetched, open, reached := s.takeTails()
	for _, tp := range s.turn {
		if tp != nil {
			s.collect(s.views[tp])
		}
	}
	clear(s.turn)
	s.passVenues()
	s.takeFetched(fetched)
	s.open(open)
	s.openReached(reached)
	for i, sub := range s.news {
		s.mark(sub)
		s.news[i] = nil
	}
	s.news = s.news[:0]
}

// takeTails notes the present tail of each touched ring. It returns the rows that were read, the
// open gates, and the items whose replica has reached its position.
func (s *Shard) takeTails() (fetched []*fetch, open []gate, reached []reach) {
	h := s.hub
	h.Lock()
	defer h.Unlock()
	defer h.ExitOnPanic()
	s.turn = s.hub.Turn(s.turn[:0])
	fetched, s.fetched = s.fetched, nil
	open, reached = s.takeReached()
	for i, tp := range s.turn {
		s.hub.Took(tp)
		switch v := s.views[tp]; {
		case v == nil:
			s.turn[i] = nil
		case v == s.venue:
			s.takeVenues()
			s.turn[i] = nil
		default:
			if !v.advance(h.Reached(v.key.Tier.Delay), h.PerTurn()) {
				s.hub.Left(tp, v.pos)
			}
		}
		h.Step(1) // each view has its own position; that of the shard is from the beginning of the turn
	}
	s.hub.EndTurn()
	return fetched, open, reached
}

// collect lists the readers of a view that has new messages in this turn.
func (s *Shard) collect(v *view) {
	v.join()
	s.Figures.count(v)
	for _, it := range v.readers {
		sub := it.sub
		if it.late != nil {
			sub.enqueue(it)
		} else {
			s.entries = append(s.entries, entry{item: it})
			n := int32(len(s.entries))
			if sub.head == 0 {
				sub.head = n
			} else {
				s.entries[sub.tail-1].next = n
			}
			sub.tail = n
		}
		s.mark(sub)
	}
}

// Next returns the next subscriber of this turn that has something to gather, or nil at the end.
// Between two calls, the host may call any method of any subscriber.
func (s *Shard) Next() *Subscriber {
	for {
		if s.next > 0 {
			// Messages that the host did not gather for the previous subscriber wait from now on.
			s.ready[s.next-1].hold()
			s.ready[s.next-1] = nil
		}
		if s.next == len(s.ready) {
			s.ready, s.next = s.ready[:0], 0
			return nil
		}
		sub := s.ready[s.next]
		s.next++
		sub.called = false
		if !sub.closed {
			return sub
		}
	}
}

// AwaitCommit starts a commit of what was published, if one is needed; see [Port.AwaitCommit].
func (s *Shard) AwaitCommit() bool { return s.hub.AwaitCommit() }
