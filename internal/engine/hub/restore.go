package hub

import (
	"context"
	"fmt"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/state"
	"github.com/ruedahq/rueda/market"
)

// Restore continues at the end of the journal, with its epoch, the N of every sequence, and the
// recent rows. Call it once, before any Define. It lists instruments as they were. A book is not
// known until its feed defines the instrument again. An instrument whose rows are all of earlier
// epochs is listed without state. One without rows in the journal is not listed until its feed
// defines it. Restore returns an error if the journal cannot be read or started, or the cause of
// the end of ctx.
func (h *Hub) Restore(ctx context.Context) error {
	j := h.cfg.Journal
	if j == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.restore(ctx, j); err != nil {
		return fmt.Errorf("restore from the journal: %w", err)
	}
	if err := j.Start(h.checkpoint); err != nil {
		return fmt.Errorf("begin the journal: %w", err)
	}
	return nil
}

// RestoreFrom continues at the end of the journal of another hub, which follows the log that this
// one appends to. It knows the books, too. Call it once, before any Define, and while no row is
// appended to that journal. The error is as that of Restore.
func (h *Hub) RestoreFrom(ctx context.Context, j *journal.Journal) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.restore(ctx, j); err != nil {
		return fmt.Errorf("restore from the journal of a follower: %w", err)
	}
	return nil
}

// restore makes the instruments of a journal with their state. The hub's lock is held, but released
// in between.
func (h *Hub) restore(ctx context.Context, j *journal.Journal) error {
	epoch := j.Epoch()
	h.epoch.Store(&epoch)
	r := restorer{hub: h, journal: j, numbers: make(map[uint32]*Instrument)}
	if err := j.Restore(r.row); err != nil {
		return err
	}
	for i, in := range r.order {
		if h.cfg.Restoring != nil && j == h.cfg.Journal {
			h.cfg.Restoring(i, len(r.order))
		}
		if err := h.refill(ctx, j, in, h.position, len(r.order)-i); err != nil {
			return fmt.Errorf("%s: %w", in.id, err)
		}
	}
	for _, in := range r.order {
		if in.Recorded(j) {
			h.relist(in)
		}
	}
	if j == h.cfg.Journal {
		r.listEarlier()
		h.holdSources(j.Sources(), j)
	}
	h.version++
	h.committed, h.restored = h.position, h.position
	if h.cfg.Following {
		h.madeAt = r.newest // until LogTime
	}
	return nil
}

// restorer makes instruments of rows.
type restorer struct {
	hub     *Hub
	journal *journal.Journal
	numbers map[uint32]*Instrument
	order   []*Instrument
	newest  int64 // greatest At of a message whose instrument has no virtual clock; 0: none
}

// instrument returns the instrument with a number in the journal. It is not listed at this time.
// The result is nil if the journal does not define the number.
func (r *restorer) instrument(number uint32) *Instrument {
	if in := r.numbers[number]; in != nil {
		return in
	}
	def, ok := r.journal.Instrument(number)
	if !ok {
		return nil
	}
	in := r.hub.makeInstrument(def, nil)
	in.Number, in.Stale = number, !def.NoBook
	r.numbers[number] = in
	r.hub.number(in)
	r.order = append(r.order, in)
	r.hub.unlisted[in.id] = in
	return in
}

// row applies a row of the last checkpoint, or a later row. It returns an error if the instrument
// of the row is not defined.
func (r *restorer) row(j *journal.Row) error {
	h := r.hub
	h.position = max(h.position, j.Position)
	if j.Kind == journal.Gap {
		return nil
	}
	in := r.instrument(j.Instrument)
	if in == nil {
		return fmt.Errorf("row at position %d is of instrument %d, which is not defined", j.Position, j.Instrument)
	}
	if !in.Def.VirtualClock && !j.Checkpoint {
		r.newest = max(r.newest, j.At)
	}
	h.restoreRow(in, j)
	return nil
}

// restoreRow applies a row of a checkpoint, or a later row. Only a hub of a cluster, or a replica,
// knows its books after a restart. Other hubs wait for a snapshot from the feed.
func (h *Hub) restoreRow(in *Instrument, j *journal.Row) {
	in.Restore(j, h.cfg.Following || h.cfg.Log != nil || in.replica != nil)
}

// refill fills the recent rows, bars and summary of an instrument from a journal, as of a
// position. among is the number of instruments that remain to be filled, including this one. The
// hub's lock is held, but released during a read of the journal.
func (h *Hub) refill(ctx context.Context, from *journal.Journal, in *Instrument, pos uint64, among int) error {
	read := func(ctx context.Context, s journal.Series, r journal.Range, yield func(*journal.Row) bool) error {
		r.Epoch = h.Epoch()
		h.mu.Unlock()
		defer h.mu.Lock()
		return from.Read(ctx, s, r, func(_ string, j *journal.Row) bool { return yield(j) })
	}
	l := state.Loader{Read: read, Pause: func() { h.mu.Step(1) }, Shared: &h.shared, Kept: h.cfg.TradesKept, Position: pos}
	err := l.Load(ctx, &in.Instrument, among)
	h.awaitBars(in.Clock)
	return err
}

// relist lists an instrument of the journal, or a market as a whole, with its stored definition.
func (h *Hub) relist(in *Instrument) {
	index := 0
	if in.Venue {
		if _, ok := h.catalog.Market(in.id.Market); !ok && h.catalog.PutMarket(market.Market{ID: in.id.Market}) != nil {
			return
		}
	} else {
		i, err := h.catalog.Add(in.Def)
		if err != nil {
			h.log.Error("instrument of the journal not listed", "instrument", in.id, "error", err)
			return
		}
		index = i
	}
	delete(h.unlisted, in.id)
	in.handle = market.Handle(len(h.handles))
	h.handles = append(h.handles, in)
	in.unfed = true
	if in.Venue {
		h.venues[in.id.Market] = in
	} else {
		h.enter(in, index)
	}
}

// Limits of the instruments that a start lists without rows in the epoch. Producers of one feed can
// define as many as a market has here.
const (
	maxEarlier         = 100_000
	maxEarlierOfMarket = 10_000
)

// listEarlier lists instruments that have rows of earlier epochs only: without state, and within
// limits that keep those with the newest rows. The hub that numbers for a cluster does not list
// them. It would publish gaps for them, and other nodes may not have them.
func (r *restorer) listEarlier() {
	h, listed, omitted := r.hub, 0, 0
	ofMarket := map[string]int{}
	for _, number := range r.journal.Recorded() {
		def, _ := r.journal.Instrument(number)
		if n, _ := r.journal.Lookup(def.ID); n != number || h.lists(def.ID) {
			continue
		}
		if !def.ID.IsPattern() {
			if listed == maxEarlier || ofMarket[def.ID.Market] == maxEarlierOfMarket {
				omitted++
				continue
			}
			listed++
			ofMarket[def.ID.Market]++
		}
		h.relist(r.instrument(number))
		h.mu.Step(1)
	}
	if omitted > 0 {
		h.log.Warn("instruments of earlier epochs are not listed before a feed defines them", "listed", listed, "not_listed", omitted)
	}
}

// fed publishes an instrument of the journal that a feed has defined for the first time since the
// start. The hub's lock is held.
func (h *sequencer) fed(in *Instrument) {
	in.unfed = false
	lost := h.cfg.Log != nil && in.Stale && !in.Def.NoBook
	in.Stale = state.BeginsStale(&in.Def)
	if h.cfg.Log != nil { // it has the book of another process
		in.Book.Replace(nil, nil)
	}
	if lost && !in.Stale {
		h.status(in, &market.Event{Kind: market.KindStatus, Phase: market.FeedUp, Reason: "snapshot"}, h.now())
	}
	h.list(in)
	h.published()
}

// restoreInstrument returns an unlisted instrument of the journal, and sets its new definition. It
// returns nil if there is no such instrument.
func (h *Hub) restoreInstrument(def market.Instrument) *Instrument {
	in := h.unlisted[def.ID]
	if in == nil {
		return nil
	}
	delete(h.unlisted, def.ID)
	in.Def = def
	h.setClock(in)
	in.Stale = state.BeginsStale(&def)
	return in
}

// checkpoint passes the rows of an instrument's checkpoint to emit, if an instrument has the
// number. The hub's lock is held, or no other goroutine runs yet.
func (h *Hub) checkpoint(number uint32, emit func(*journal.Row)) {
	if int(number) >= len(h.numbered) || h.numbered[number] == nil {
		return
	}
	h.numbered[number].Checkpoint(h.position, emit)
}
