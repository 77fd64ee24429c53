package subscription

import (
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Work counts what a request has caused, so that the caller can charge it.
type Work struct {
	Added     int           // identifiers that were added to the set
	Removed   int           // identifiers that were removed from the set
	Moved     int           // identifiers of the set that continue at another depth, conflation or delay
	Snapshots int           // instruments whose snapshots are due
	Levels    int           // levels of the books in these snapshots
	Resumed   int           // added identifiers that continue after an N
	Looked    int           // sequences in which a resume by position or a start searched its first row
	Read      time.Duration // in which a start was searched in the journal, by a goroutine of the hub
	Compared  int           // comparisons of patterns with identifiers
	Hints     int           // refused identifiers for which a similar one was searched
}

// requestSnapshot makes the snapshots of an item due, and counts them unless they were due already.
// The hub's lock is held.
func (w *Work) requestSnapshot(it *item) {
	if !it.behind().needsSnapshot {
		w.countSnapshots(it)
	}
	it.requestSnapshot()
}

// countSnapshots counts the snapshots of an item. The hub's lock is held.
func (w *Work) countSnapshots(it *item) {
	if it.view.topic == nil || !hasState(it.channel()) {
		return
	}
	list := it.view.topic.Members()
	w.Snapshots += len(list)
	if it.channel() != wire.OrderBook {
		return
	}
	for _, in := range list {
		w.Levels += levels(in, it.tier().Depth)
	}
}

// levels returns the number of levels of a book of some depth; 0: all levels.
func levels(in *hub.Instrument, depth int) (n int) {
	b := in.Book.Levels()
	for _, side := range [2]market.Side{market.Buy, market.Sell} {
		have := b.Len(side)
		if depth > 0 {
			have = min(have, depth)
		}
		n += have
	}
	return n
}

// Waits reports whether Gather may return more than the messages of the present turn, such as rows
// of a replay.
func (s *Subscriber) Waits() bool { return s.wait != nil }

// Replayed counts what Gather has done for replays and snapshots.
type Replayed struct {
	Rows       int             // of replays
	Transcoded wire.Transcoded // of replays and snapshots, for this subscriber alone
}

// TakeReplayed returns what Gather has done since the last call, for this subscriber or others of
// its shard.
func (s *Subscriber) TakeReplayed() (r Replayed) {
	r, s.shard.replayed = s.shard.replayed, Replayed{}
	return r
}
