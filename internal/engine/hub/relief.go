package hub

import (
	"time"

	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/wire"
)

// While the memory is above its limit, each measuring raises the level of relief by one. The hub
// then measures about ten times a second. The levels are:
//
//   - relieveReaders: a replay keeps no rows in memory; the shard reads them from the journal when
//     it sends them. If a client is more than a segment behind, one R:true replaces its waiting
//     quotes, books and summaries. No subscription may make a new tier of quotes or books.
//   - relieveRecent: the hub keeps fewer rows in memory for clients that resume. The journal has
//     the older rows.
//   - relieveSessions: the server closes the connections that hold the most memory, as slow
//     consumers.
//
// Only the last level drops trades, statuses and bars that wait for a client within its limits.
const (
	relieveReaders int32 = 1 + iota
	relieveRecent
	relieveSessions
)

// warnEvery is the shortest time between two warnings that the memory is full.
const warnEvery = int64(time.Minute)

// relieve sets the level of relief and the limit of recent rows from the used memory. The hub's
// lock is held.
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

// plainDepth is the depth of a book if the subscriber does not request one.
const plainDepth = 5

// mayAdd reports whether the present level of relief allows an item. An item is always allowed if
// its topic exists. A topic without conflation is always allowed too, for a book only at the
// default depth. The caller does not hold the hub's lock.
func (h *publisher) mayAdd(x Item) bool {
	if h.memory.level.Load() == 0 || x.Tier.Conflate == 0 && (x.Channel != wire.OrderBook || x.Tier.Depth == plainDepth) {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.topics[x] != nil
}

// used returns the memory that counts toward the limit, in bytes. The hub's lock is held.
func (h *publisher) used() int64 {
	m := &h.memory
	return m.rings + m.own.Load() + h.shared.Bytes() + topicBytes*int64(len(h.topics)) + coverBytes*m.covers + followerBytes*m.followers
}
