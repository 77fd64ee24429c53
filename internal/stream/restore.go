package stream

import (
	"context"
	"fmt"
	"math"

	"github.com/ruedahq/rueda/internal/book"
	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/internal/recent"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Restore takes up the numbering where the journal left it: the epoch, the N of every sequence,
// the trades and statuses that are kept in memory. It is called once, before anything is defined.
// Instruments are listed as they were; their books are not known before their feed defines them again.
// One of which no row is kept any more is not listed before that.
func (h *Hub) Restore(ctx context.Context) error {
	j := h.cfg.Journal
	if j == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.epoch = j.Epoch()
	r := restorer{hub: h, numbers: make(map[uint32]*instrument)}
	if err := j.Restore(r.row); err != nil {
		return fmt.Errorf("take up the journal: %w", err)
	}
	for i, in := range r.order {
		if err := h.refill(ctx, in, h.position, len(r.order)-i); err != nil {
			return fmt.Errorf("take up the journal: %s: %w", in.id, err)
		}
	}
	h.listRestored(r.order)
	h.committed, h.restored = h.position, h.position
	if err := j.Start(h.checkpoint); err != nil {
		return fmt.Errorf("begin the journal: %w", err)
	}
	return nil
}

// restorer makes instruments of rows.
type restorer struct {
	hub     *Hub
	numbers map[uint32]*instrument
	order   []*instrument
}

// instrument is the one of a number in the journal, asleep.
func (r *restorer) instrument(number uint32) *instrument {
	if in := r.numbers[number]; in != nil {
		return in
	}
	def, ok := r.hub.cfg.Journal.Instrument(number)
	if !ok {
		return nil
	}
	in := &instrument{def: def, id: def.ID, ident: wire.MakeIdent(def.ID), number: number,
		stale: !def.NoBook,
		venue: def.ID.Symbol == market.Any}
	r.numbers[number] = in
	r.hub.number(in)
	r.order = append(r.order, in)
	if r.hub.asleep == nil {
		r.hub.asleep = make(map[market.InstrumentID]*instrument)
	}
	r.hub.asleep[in.id] = in
	return in
}

// row takes one row of the last checkpoint, or behind it.
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
	h.restoreRow(in, j)
	return nil
}

// restoreRow applies a row of a checkpoint, or after it, to an instrument that has no readers yet. Its recent
// rows and bars are not counted: see refill.
func (h *Hub) restoreRow(in *instrument, j *journal.Row) {
	s := stamp{j.Time, j.Latency}
	switch j.Kind {
	case journal.Numbers:
		in.restoreCounts(&j.Counts)
	case journal.Trade, journal.Cancel, journal.Correct, journal.Reference:
		in.restoreTally(j)
	case journal.Status:
		in.statusChannel().restore(j.N, j.At)
		switch {
		case j.Phase == market.Gap:
		case j.Phase.OfFeed():
			in.down = in.venue && j.Phase == market.FeedDown
		default:
			in.phase, in.reason, in.until = j.Phase, j.Reason, j.Until
		}
	case journal.Quote:
		in.channels[wire.Quotes].restore(j.N, j.At)
		in.bid, in.ask, in.quoted = first(j.Bids), first(j.Asks), s
	case journal.BookUpdate, journal.BookState:
		in.channels[wire.OrderBook].restore(j.N, j.At)
		in.changed = s
		if h.cfg.Following || in.replica != nil {
			in.restoreBook(j)
		}
	case journal.BookLost:
		in.stale = true
	case journal.Bar:
		in.restoreBar(j)
	}
}

// restoreBook applies a row of a book. Only a hub that follows another one, and a replica, know their
// books at a restart: others wait for a snapshot of their feed.
func (in *instrument) restoreBook(j *journal.Row) {
	if j.Kind == journal.BookState {
		in.book.Replace(j.Bids, j.Asks)
		in.stale = false
	} else if _, err := in.book.Update(nil, j.Bids, j.Asks); err != nil {
		in.stale = true
	}
}

// restore moves a channel on to an N.
func (c *channel) restore(n uint64, at int64) {
	if n >= c.n {
		c.n, c.at = n, at
	}
}

func (in *instrument) statusChannel() *channel { return &in.channels[in.statusKey()] }

// statusKey returns the channel of the instrument's statuses.
func (in *instrument) statusKey() wire.Channel {
	if in.venue {
		return marketStatus
	}
	return wire.Status
}

func (in *instrument) restoreCounts(c *journal.Counts) {
	in.channels[wire.Trades].n = c.N[journal.Trades]
	in.statusChannel().n = c.N[journal.Statuses]
	in.channels[wire.Quotes].n = c.N[journal.Quotes]
	in.channels[wire.OrderBook].n = c.N[journal.Books]
	in.channels[wire.Summary].n = c.N[journal.Summaries]
	for i, n := range c.Bars {
		in.channels[wire.BarsOf(market.Interval(i))].n = n
	}
}

// counts is where the sequences of an instrument stand.
func (in *instrument) counts() (c journal.Counts) {
	c.N[journal.Trades] = in.channels[wire.Trades].n
	c.N[journal.Statuses] = in.statusChannel().n
	c.N[journal.Quotes] = in.channels[wire.Quotes].n
	c.N[journal.Books] = in.channels[wire.OrderBook].n
	c.N[journal.Summaries] = in.channels[wire.Summary].n
	for i := range c.Bars {
		c.Bars[i] = in.channels[wire.BarsOf(market.Interval(i))].n
	}
	return c
}

// refill fills the recent rows, bars and summary of an instrument from the journal, as of a position. among is
// the number of instruments that are to be filled, with this one. The hub's lock is held, but not while
// the journal is read.
func (h *Hub) refill(ctx context.Context, in *instrument, pos uint64, among int) error {
	f := refill{hub: h, pos: pos, until: h.rows + max(0, h.maxRows-h.rows)/int64(max(1, among))}
	statuses := journal.Series{Instrument: in.id, Channel: journal.Statuses}
	if err := f.fill(ctx, &in.statuses, statuses, in.statusChannel().n, f.share(2), 1); err != nil || in.venue {
		return err
	}
	trades := journal.Series{Instrument: in.id, Channel: journal.Trades}
	if err := f.fill(ctx, &in.trades, trades, in.channels[wire.Trades].n, f.share(2), 1); err != nil {
		return err
	}
	return f.restoreDay(ctx, in)
}

// refill is the filling of one instrument.
type refill struct {
	hub   *Hub
	pos   uint64
	until int64 // rows of all instruments when this one is done: what it leaves goes to the others
}

// share is how many rows may be filled, if there are parts for so many.
func (f *refill) share(parts int) int { return int(max(0, f.until-f.hub.rows)) / parts }

// read reads rows without the hub's lock, which is held otherwise.
func (f *refill) read(ctx context.Context, s journal.Series, r journal.Range, yield func(j *journal.Row) bool) error {
	r.Epoch = f.hub.epoch
	f.hub.mu.Unlock()
	defer f.hub.mu.Lock()
	return f.hub.cfg.Journal.Read(ctx, s, r, func(_ string, j *journal.Row) bool { return yield(j) })
}

// fill reads the newest rows of a sequence, which stands at n: some, each of which takes the space of
// cost rows.
func (f *refill) fill(ctx context.Context, t *recent.Rows, s journal.Series, n uint64, some int, cost int64) error {
	after := n - min(n, uint64(min(some, f.hub.cfg.TradesKept)))
	*t = recent.Rows{Last: after}
	if after > 0 {
		t.Dropped = f.pos // until a row is there which says it better
	}
	if after == n {
		return nil
	}
	err := f.read(ctx, s, journal.Range{AfterN: after, ToN: n}, func(j *journal.Row) bool {
		if j.N != t.Last+1 {
			*t = recent.Rows{Last: j.N - 1} // rows were lost: what is kept has no gap
		}
		if t.Stored == 0 && j.N > 1 {
			t.Dropped = j.Position - 1
		}
		t.Add(recent.RowOf(j), math.MaxInt, false)
		return true
	})
	if err == nil && t.Last != n {
		*t = recent.Rows{Last: n, Dropped: f.pos}
	}
	f.hub.rows += cost * int64(t.Stored)
	return err
}

// listRestored lists the instruments of the journal, and the markets as a whole. The hub's lock is held.
func (h *Hub) listRestored(order []*instrument) {
	for _, in := range order {
		if h.keepsRows(in) {
			h.relist(in)
		}
	}
	h.version++
}

// relist lists an instrument of the journal, or a market as a whole, as it was defined.
func (h *Hub) relist(in *instrument) {
	index := 0
	if in.venue {
		if _, ok := h.catalog.Market(in.id.Market); !ok && h.catalog.PutMarket(market.Market{ID: in.id.Market}) != nil {
			return
		}
	} else {
		i, err := h.catalog.Add(in.def)
		if err != nil {
			h.log.Error("instrument of the journal not listed", "instrument", in.id, "error", err)
			return
		}
		index = i
	}
	delete(h.asleep, in.id)
	in.handle = market.Handle(len(h.handles))
	h.handles = append(h.handles, in)
	in.unfed = true
	if in.venue {
		h.venues[in.id.Market] = in
	} else {
		h.enterCatalogue(in, index)
	}
}

// keepsRows says whether the journal has rows of an instrument yet. The definitions of those that expired
// long ago, and where their numbers stand, are kept for ever.
func (h *Hub) keepsRows(in *instrument) bool {
	days := h.cfg.Journal.Days()
	for c := range in.channels {
		if at := in.channels[c].at; at != 0 && len(days) > 0 && at >= days[0].From {
			return true
		}
	}
	counts := in.counts()
	for c, n := range counts.N {
		if n > 0 && h.cfg.Journal.Oldest(journal.Series{Instrument: in.id, Channel: journal.Channel(c)}) <= n {
			return true
		}
	}
	for i, n := range counts.Bars {
		if n > 0 && h.cfg.Journal.Oldest(journal.Series{Instrument: in.id, Channel: journal.Bars, Interval: market.Interval(i)}) <= n {
			return true
		}
	}
	return false
}

// fed has an instrument of the journal that a feed has defined for the first time since the start go on.
// The hub's lock is held.
func (h *Hub) fed(in *instrument) {
	in.unfed = false
	in.stale = beginsStale(&in.def)
	h.list(in)
	h.published()
}

// wakeUp is the instrument as it was when the journal was left, if it is of it.
func (h *Hub) wakeUp(def market.Instrument) *instrument {
	in := h.asleep[def.ID]
	if in == nil {
		return nil
	}
	delete(h.asleep, def.ID)
	in.def = def
	in.stale = beginsStale(&def)
	return in
}

// checkpoint tells how the instrument of a number stands, if it has one, for a checkpoint of the journal. The hub's
// lock is held, or nobody else is there yet.
func (h *Hub) checkpoint(number uint32, emit func(*journal.Row)) {
	if int(number) >= len(h.numbered) || h.numbered[number] == nil {
		return
	}
	in := h.numbered[number]
	head := journal.Row{Checkpoint: true, Instrument: in.number, Position: h.position, Latency: -1}
	r := head
	r.Kind, r.Counts = journal.Numbers, in.counts()
	emit(&r)
	if c := in.statusChannel(); c.n > 0 {
		r = head
		r.Kind, r.N, r.At, r.Time = journal.Status, c.n, c.at, c.at
		if in.down {
			r.Phase = market.FeedDown
			emit(&r)
		}
		if r.Phase, r.Reason, r.Until = in.phase, in.reason, in.until; in.phase != market.NoPhase || !in.down {
			emit(&r)
		}
	}
	if in.venue || in.def.NoBook && in.channels[wire.Quotes].n == 0 {
		return
	}
	if c := &in.channels[wire.Quotes]; c.n > 0 {
		r = head
		r.Kind, r.N, r.At, r.Time, r.Latency = journal.Quote, c.n, c.at, in.quoted.time, in.quoted.latency
		r.Bids, r.Asks = side(in.bid), side(in.ask)
		emit(&r)
	}
	if c := &in.channels[wire.OrderBook]; c.n > 0 {
		r = head
		r.Kind, r.N, r.At, r.Time, r.Latency = journal.BookState, c.n, c.at, in.changed.time, in.changed.latency
		if in.stale {
			r.Kind, r.Reason = journal.BookLost, "not_known"
		} else {
			var l book.Levels
			l.Read(&in.book, 0)
			r.Bids, r.Asks = l.Bids, l.Asks
		}
		emit(&r)
	}
}

// side is a side of a quote.
func side(l market.Level) []market.Level {
	if l.Size == 0 {
		return nil
	}
	return []market.Level{l}
}
