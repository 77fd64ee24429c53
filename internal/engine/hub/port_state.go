package hub

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/engine/catalogue"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/readjob"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// The methods of this file answer the questions that subscriptions have about the hub's state. The
// caller holds the hub's lock, except where a comment states otherwise.

// Journal returns the journal, or nil. The caller does not need the lock.
func (p *Port) Journal() *journal.Journal { return p.hub.cfg.Journal }

// PerTurn returns Config.PerTurn. The caller does not need the lock.
func (p *Port) PerTurn() int { return p.hub.cfg.PerTurn }

// Epoch returns the name of the numbering. The caller does not need the lock.
func (p *Port) Epoch() string { return p.hub.Epoch() }

// Log returns the logger of the hub. The caller does not need the lock.
func (p *Port) Log() *slog.Logger { return p.hub.log }

// Catalogue returns the listed instruments and markets. The caller does not need the lock.
func (p *Port) Catalogue() *catalogue.Catalogue { return &p.hub.catalog }

// Lookup returns a listed instrument at a delay in seconds, or nil.
func (p *Port) Lookup(id market.InstrumentID, delay int) *Instrument {
	return p.hub.lookupItem(Item{ID: id, Tier: Tier{Delay: delay}})
}

// Covered returns the instruments that an item covers, at its delay.
func (p *Port) Covered(x Item) []*Instrument { return p.hub.covered(x) }

// Unite adds the indexes of the instruments that a pattern covers to a set. Call Prepare first.
func (p *Port) Unite(set *catalogue.Set, id market.InstrumentID) { set.Unite(p.hub.group(id).Set) }

// KeepBooks removes the indexes of instruments without an order book from a set.
func (p *Port) KeepBooks(set catalogue.Set) { set.Intersect(p.hub.withBook) }

// Prepare makes the missing groups of patterns. It does not hold the hub's lock for long. The
// caller must not hold the lock.
func (p *Port) Prepare(items []Item) {
	for _, x := range items {
		if x.ID.IsPattern() {
			p.hub.prepareGroup(x.ID)
		}
	}
}

func (d *directory) prepareGroup(id market.InstrumentID) {
	d.mu.Lock()
	found := d.groups.Find(id) != nil
	list, listed := d.groups.Candidates(id), len(d.groups.All())
	d.mu.Unlock()
	if found {
		return
	}
	members := catalogue.Matching(nil, list, id)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.groups.Find(id) == nil {
		d.groups.Make(id, catalogue.Matching(members, d.groups.All()[listed:], id)) // plus those listed meanwhile
	}
}

// VenuesOf returns a market as a whole. If name is market.Any, it returns all of them in the order
// of definition.
func (p *Port) VenuesOf(name string) []*Instrument { return p.hub.venuesOf(name) }

// MarketDown reports whether the feed of an instrument's market is down, as known at its delay.
func (p *Port) MarketDown(in *Instrument) bool { return p.hub.marketDown(in) }

// Commit commits what was published, if the committer does not run.
func (p *Port) Commit() { p.hub.commit() }

// Published ends a change that may have appended rows to a new topic.
func (p *Port) Published() { p.hub.published() }

// Committed returns the position up to which rows are committed. No client receives later rows.
func (p *Port) Committed() uint64 { return p.hub.committed }

// Newest returns the position of the newest row, which may not be committed.
func (p *Port) Newest() uint64 { return p.hub.position }

// Reached returns the position up to which readers of a delay have all rows.
func (p *Port) Reached(delay int) uint64 { return p.hub.reached(delay) }

// LastCommitted returns the N of the newest committed row among recent rows.
func (p *Port) LastCommitted(t *recent.Rows) uint64 { return p.hub.last(t) }

// Uncommitted reports whether some of the instruments have rows that are not committed.
func (p *Port) Uncommitted(list []*Instrument) bool {
	h := p.hub
	return h.committed != h.position && slices.ContainsFunc(list, func(in *Instrument) bool { return in.pos > h.committed })
}

// StatusPassed reports whether status n of an instrument is at or before a position at every delay.
func (p *Port) StatusPassed(in *Instrument, n, pos uint64) bool {
	live := p.hub.lookup(in.id)
	if live == nil {
		live = in
	}
	if in.Statuses.Seek(pos) < n || live.Statuses.Seek(pos) < n {
		return false
	}
	for _, x := range live.later {
		if x.Statuses.Seek(pos) < n {
			return false
		}
	}
	return true
}

// AppendState appends the framed snapshot of an instrument's tier, or nothing if there is none.
// stale reports that there is none because the book is not known.
func (p *Port) AppendState(dst []byte, in *Instrument, c wire.Channel, tier Tier) (_ []byte, stale bool) {
	h := p.hub
	if c == wire.Status {
		if in.Phase == market.NoPhase {
			return dst, false // the replica has no status yet
		}
		return h.encoder.AppendStatus(dst, &in.Instrument, in.Phase, in.Reason, in.Until), false
	}
	for _, t := range h.tiers(in, c) {
		if t.Tier != tier {
			continue
		}
		if in.Stale && (c == wire.OrderBook || c == wire.Quotes && in.DerivesQuotes()) {
			return dst, true
		}
		dst = h.encoder.AppendState(dst, &in.Instrument, c, &t.State)
	}
	return dst, false
}

// AppendStatus appends a framed status with R:true.
func (p *Port) AppendStatus(dst []byte, in *Instrument, phase market.Phase, reason string, until int64) []byte {
	return p.hub.encoder.AppendStatus(dst, &in.Instrument, phase, reason, until)
}

// Delays returns the delays that the hub serves, in seconds. The caller does not need the lock, and
// does not change the list.
func (p *Port) Delays() []int { return p.hub.delays }

// Ready reports whether the data at a delay is loaded. The caller does not hold the lock.
func (p *Port) Ready(delay int) bool {
	c := p.hub.replica(delay)
	return c == nil || c.is(replicaReady)
}

// Await begins to load the replicas that items need. It returns nil if all are loaded, and
// otherwise a Wait that ends when they are. The caller then gives the items again. If found is nil,
// or if Run does not run, Await waits until they are loaded. While an epoch ends, it returns a Wait
// for the next one, unless found is nil. The caller does not hold the lock.
func (p *Port) Await(items []Item, found func()) *readjob.Wait {
	h := p.hub
	var loading []*replica
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over != nil && len(items) > 0 && found != nil {
		w := readjob.NewWait(1, found)
		h.waits = append(h.waits, w)
		return w
	}
	for i := range items {
		c := h.replica(items[i].Tier.Delay)
		if c == nil {
			continue
		}
		if found == nil || !h.jobs.Served() {
			_ = c.await(context.Background())
			continue
		}
		c.used = h.clock()
		if c.begin(); c.state != replicaReady && !slices.Contains(loading, c) {
			loading = append(loading, c)
		}
	}
	if loading == nil {
		return nil
	}
	w := readjob.NewWait(len(loading), found)
	for _, c := range loading {
		c.waiting = append(c.waiting, w)
	}
	return w
}

// Pin keeps the replicas of items in use until unpin is called. It waits until their loading has
// ended. The caller does not hold the lock.
func (p *Port) Pin(items []Item) (unpin func()) {
	h := p.hub
	var list []*replica
	for i := range items {
		if c := h.replica(items[i].Tier.Delay); c != nil && !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	if list == nil {
		return func() {}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range list {
		c.pins++
		_ = c.await(context.Background())
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, c := range list {
			c.pins--
			c.used = h.clock()
		}
	}
}

const resumable = int64(time.Hour) // age of rows that are replayed without the right to history

// IsHistory reports whether a row with the time at, in Unix ns, needs the right to history.
func (p *Port) IsHistory(in *Instrument, at int64) bool {
	now := in.Publication(time.Now().UnixNano())
	return at < now-resumable && at < p.Opening(in.id.Market, in.id.Term, now)
}

// Opening returns the time at which a market opened on the day of now, for a settlement term. All
// times are in Unix ns. It returns midnight UTC if the market has no opening.
func (p *Port) Opening(name, term string, now int64) int64 {
	h, day := p.hub, time.Unix(0, now)
	midnight, _ := market.TradingDay(day, time.UTC)
	if m, ok := h.catalog.Market(name); ok {
		if zone := h.zones[m.ID]; zone != nil {
			if open, ok := m.Schedule.Opening(day, zone, term); ok {
				return open.UnixNano()
			}
		}
	}
	return midnight.UnixNano()
}

// MayAdd reports whether the memory allows an item; see mayAdd. The caller does not hold the lock.
func (p *Port) MayAdd(x Item) bool { return p.hub.mayAdd(x) }

// Hold adds bytes to the memory that is counted for sessions. The caller does not need the lock.
func (p *Port) Hold(bytes int) { p.hub.memory.own.Add(int64(bytes)) }

// CountNotices adds to the number of sets of subscriptions that remember notices. The caller does
// not need the lock.
func (p *Port) CountNotices(n int32) { p.hub.memory.notices.Add(n) }

// MemoryShort reports whether subscribers should release memory. The caller does not need the lock.
func (p *Port) MemoryShort() bool { return p.hub.memory.level.Load() >= relieveReaders }

// MemoryFull reports whether the connections that hold the most memory must be closed. The caller
// does not need the lock.
func (p *Port) MemoryFull() bool { return p.hub.memory.level.Load() >= relieveSessions }
