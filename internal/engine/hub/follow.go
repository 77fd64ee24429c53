package hub

import (
	"fmt"
	"time"

	"github.com/ruedahq/rueda/internal/engine/book"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// A hub with Config.Following applies the rows of another hub, and does not number events. Its
// subscribers receive the same messages as those of the other hub, and its journal has the same
// rows.

// Follower takes the definitions and rows of another hub, in their order. The hub's lock is held.
type Follower struct {
	hub  *Hub
	now  int64
	took int // definitions and rows, in this call of Follow
}

// Follow calls f, which passes what another hub has published. Rows up to the hub's position are
// skipped, so that a part of the log may be given again. The error is that of f; what came before
// it has been applied.
func (h *Hub) Follow(f func(*Follower) error) error {
	h.feeding.Lock()
	defer h.feeding.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.endOnPanic()
	h.awaitJournal()
	err := f(&Follower{hub: h, now: time.Now().UnixNano()})
	h.published()
	return err
}

// Define defines an instrument, or a market as a whole. number is its number in the journal of the
// other hub, which a journal limits. A later call changes the definition. The error states why the
// definition is not valid.
func (f *Follower) Define(number uint32, def market.Instrument) error {
	_, err := f.hub.followDefinition(number, def)
	f.step()
	return err
}

// Row applies a row, and does not retain it. The error names an instrument that was not defined.
func (f *Follower) Row(r *journal.Row) error {
	if err := f.hub.follow(r, f.now); err != nil {
		return err
	}
	f.step()
	return nil
}

// step ends a hold of the hub's lock that has taken much.
func (f *Follower) step() {
	h := f.hub
	f.took++
	if h.mu.Visit(1); f.took%publishPiece == 0 {
		h.published()
		h.mu.Pause()
		if h.awaitJournal() {
			f.now = time.Now().UnixNano()
		}
	}
}

// followDefinition defines an instrument of the other hub. The hub's lock is held.
func (h *Hub) followDefinition(number uint32, def market.Instrument) (*Instrument, error) {
	in, _, err := h.define(def)
	if err != nil {
		return nil, fmt.Errorf("define %s: %w", def.ID, err)
	}
	in.unfed = false
	for int(number) >= len(h.followed) {
		h.followed = append(h.followed, nil)
	}
	h.followed[number] = in
	return in, nil
}

// followStored defines an instrument by the journal of this hub, which has the numbers of the other
// one. It returns nil if the journal does not have the number.
func (h *Hub) followStored(number uint32) *Instrument {
	if h.cfg.Journal == nil {
		return nil
	}
	def, ok := h.cfg.Journal.Instrument(number)
	if !ok {
		return nil
	}
	in, err := h.followDefinition(number, def)
	if err != nil {
		h.log.Error("instrument of the journal not listed", "instrument", def.ID, "error", err)
		return nil
	}
	return in
}

// LogTime sets the log's clock, Unix ns, for a hub that follows another one. Rows that were applied
// before are at most that old, and those that follow are not older. Delayed data comes by this
// clock alone, and waits for the first call. The clock never goes back.
func (h *Hub) LogTime(t int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.timed {
		h.timed, h.madeAt = true, t // no row of the journal is newer
	}
	h.logAge = max(h.logAge, t-h.madeAt)
	for _, c := range h.replicas {
		c.wake()
	}
}

// follow applies one row.
func (h *Hub) follow(from *journal.Row, now int64) error {
	if from.Checkpoint || from.Position <= h.position {
		return nil
	}
	if from.Kind == journal.Gap {
		h.position = from.Position
		return nil
	}
	var in *Instrument
	if int(from.Instrument) < len(h.followed) {
		in = h.followed[from.Instrument]
	}
	if in == nil {
		if in = h.followStored(from.Instrument); in == nil {
			return fmt.Errorf("row at position %d: instrument %d is not defined", from.Position, from.Instrument)
		}
	}
	h.takePosition(in, from.Position)
	h.followClock(in, from, now)
	r := &h.scratch.row
	*r = *from
	r.Instrument = in.Number
	h.appendRow(r)
	in.SkipLost(r, &h.shared)
	h.applyRow(in, r, now)
	return nil
}

// followClock moves the clock of an instrument's bars to the time of a row. It does not send the
// bars that have ended, because they come as rows.
func (h *applier) followClock(in *Instrument, r *journal.Row, now int64) {
	if in.Venue || in.restarts(r) {
		return
	}
	x := in.Clock
	switch {
	case !x.Virtual():
		if x.Follow(r.At) {
			h.sendBarsOf(x, r.At, noBars)
		}
	case x.Now() == 0 && (r.Kind == journal.Status || r.Kind == journal.BookLost || r.Kind == journal.BookState && len(r.Bids)+len(r.Asks) == 0):
		// Such a row before the first event has the time of the wall clock.
	case x.Move(r.At):
		h.sendBarsOf(x, r.At, noBars)
	}
}

// restarts reports whether a row says that the recording of an instrument begins again.
func (in *Instrument) restarts(r *journal.Row) bool {
	return r.Phase == market.Gap && r.Reason == replayRestarted && in.Def.VirtualClock && !in.Venue
}

// applyRow applies a row of another hub to the state of this hub.
func (h *applier) applyRow(in *Instrument, r *journal.Row, now int64) {
	switch r.Kind {
	case journal.Trade, journal.Cancel, journal.Correct:
		h.applyTrade(in, r, now, noBars)
	case journal.Status:
		if in.restarts(r) {
			h.restart(in, noBars)
		}
		h.applyStatus(in, r, now)
	case journal.Quote:
		h.applyQuote(in, r, now)
	case journal.BookUpdate:
		h.tiers(in, wire.OrderBook) // as they are before the change
		changes, err := in.Book.Update(h.scratch.changes[:0], r.Bids, r.Asks)
		if err != nil { // rows were lost
			in.Stale = true
			return
		}
		changes = book.Compact(changes)
		h.scratch.changes = changes[:0]
		h.applyChanges(in, r, changes, now)
	case journal.BookState:
		h.tiers(in, wire.OrderBook)
		in.Book.Replace(r.Bids, r.Asks)
		in.Stale = false
		h.applyBook(in, r, now)
	case journal.BookLost:
		in.Stale = true
	case journal.Bar:
		h.applyBar(in, r, now)
	case journal.Reference:
		h.applyReference(in, r, now)
	}
}
