package stream

import (
	"time"

	"github.com/ruedahq/rueda/internal/recent"
	"github.com/ruedahq/rueda/wire"
)

// While the memory is above its limit, each measuring raises the level of relief by one, and there are
// ten a second. The first levels cost nobody a message:
//
//   - relieveReaders: a replay keeps nothing in memory: its rows are read from the journal when they
//     are sent. Waiting quotes, books and summaries of a client that is more than a segment behind
//     become one R:true. No subscription may make a new tier of quotes or books.
//   - relieveRecent: fewer rows are kept in memory for clients that resume. The journal has the older
//     ones.
//   - relieveSessions: the connections that hold the most are closed as slow consumers.
//
// Trades, statuses and bars that wait for a client within its limits are cut by the last level only.
const (
	relieveReaders int32 = 1 + iota
	relieveRecent
	relieveSessions
)

// warnEvery is the least time between two warnings that the memory is full.
const warnEvery = int64(time.Minute)

// relieve sets the level of relief for the memory that is used. The hub's lock is held.
func (h *publisher) relieve() {
	m, r, used := &h.memory, &h.shared, h.used()
	level := m.level.Load()
	switch {
	case used > m.limit:
		level = min(level+1, relieveSessions)
	default:
		level = 0
	}
	if now := h.clock(); m.level.Swap(level) == 0 && level > 0 && now >= m.warnDue {
		m.warnDue = now + warnEvery
		h.log.Warn("the stream's memory is full: slow clients and replays keep less of it", "bytes", used, "limit", m.limit)
	}
	switch full := h.cfg.RecentBytes / recent.RowBytes; {
	case level >= relieveRecent:
		r.MaxRows = min(r.MaxRows, r.Rows) * 7 / 8
	case level == 0 && r.MaxRows < full && used < m.limit*3/4:
		r.MaxRows = min(r.MaxRows+full/64, full)
	}
}

// noMemory is the hint of an item that mayAdd refuses.
const noMemory = "The server's memory for the stream is full; use a depth and conflation that others use, or try later"

// plainDepth is the depth of a book whose subscriber asks for none.
const plainDepth = 5

// mayAdd reports whether an item may make a topic, if it needs one, at the present level of relief. A
// topic of every change at the default depth is always allowed. The caller does not hold the hub's
// lock.
func (h *publisher) mayAdd(x Item) bool {
	if h.memory.level.Load() == 0 || x.Tier.Conflate == 0 && (x.Channel != wire.OrderBook || x.Tier.Depth == plainDepth) {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.topics[topicKey{x.Channel, x.ID, x.Tier}] != nil
}

// KeepAll sets whether all quotes, books and summaries of the subscriber are sent, instead of their
// newest state when too many wait.
func (s *Subscriber) KeepAll(on bool) { s.strict = on }

// Hold adds bytes, which may be negative, to the memory that the subscriber's host uses for it.
func (s *Subscriber) Hold(bytes int) { s.shard.hub.memory.own.Add(int64(bytes)) }

// Excess reports whether the memory is so full that the connections which hold the most must be
// closed.
func (s *Subscriber) Excess() bool { return s.shard.hub.memory.level.Load() >= relieveSessions }

// relieve releases what the subscriber keeps in memory, as far as the level of relief demands.
func (s *Subscriber) relieve() {
	if s.shard.hub.memory.level.Load() < relieveReaders {
		return
	}
	for _, it := range s.queue() {
		l := it.late
		switch {
		case l == nil || !it.reads():
		case l.replay != nil:
			it.letGo()
		case !s.strict && l.gate == 0 && !it.channel().Replays() && !l.at.SameSegment(it.view.tail):
			it.collapse()
		}
	}
}
