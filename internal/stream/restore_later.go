package stream

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/internal/recent"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// After a restart a line has to say no more than it would have said without one. What was told by
// then, of trades, statuses, reference figures and bars, is what the journal has as published a delay ago
// or earlier; what was published since is on its way again. A quote, a book or a status of which that is not
// known is not told before the line lists the instrument, a delay after the restart: then
// all of what was before it is old enough. With a virtual clock the journal has event times, which do not
// say when something was told here: of such an instrument nothing at all is told until then, and what
// was on its way is for those who resume.

// restoreLater takes up the delayed counterpart of an instrument that the journal knew. Of
// quotes and books it goes on with what is published from now on, under the same numbers as the live ones.
func (h *Hub) restoreLater(in, x *instrument) {
	ln := x.line
	if x.venue {
		// Its status is everybody's at once. What the line does about it goes by how it stands now.
		x.phase, x.reason, x.until = in.phase, in.reason, in.until
		if in.down {
			ln.down[in.id.Market] = true
		}
		return
	}
	h.allot()
	y := h.standing(in, ln)
	x.held, x.stale = y, true
	for _, c := range [...]wire.Channel{wire.Quotes, wire.OrderBook} {
		x.channels[c].n, x.channels[c].at = y.channels[c].n, y.channels[c].at
	}
	x.bid, x.ask = in.bid, in.ask // what the next quote differs from; not told, since quoted is not set
	if !in.def.VirtualClock {
		err := h.restoreWay(in, x)
		if err == nil {
			return
		}
		h.log.Error("delayed data begin anew after their delay", "instrument", x.id, "error", err)
	}
	// When something was published by this machine's clock is not known: until it is listed x has told nothing.
	if err := h.restoreDay(context.Background(), y, math.MaxInt64); err != nil {
		h.log.Error("delayed bars could not be taken up", "instrument", x.id, "error", err)
	}
}

// standing is a live instrument as it stands at a restart, for a line.
func (h *Hub) standing(in *instrument, ln *line) *instrument {
	y := &instrument{def: in.def, id: in.id, line: ln, stale: in.stale, quoted: in.quoted,
		phase: in.phase, reason: in.reason, until: in.until}
	for c := range in.channels {
		y.channels[c].n, y.channels[c].at = in.channels[c].n, in.channels[c].at
	}
	for _, c := range [...]wire.Channel{wire.Trades, wire.Status} {
		t := in.tape(c)
		*y.tape(c) = h.toldUpTo(t.Last, t.LastAt)
	}
	return y
}

// toldUpTo is the tape of a line of which nothing is in memory.
func (h *Hub) toldUpTo(n uint64, at int64) recent.Rows {
	if n == 0 {
		return recent.Rows{}
	}
	return recent.Rows{Last: n, LastAt: at, Dropped: h.position}
}

// ripen has an instrument stand as it stood at the restart: all of that is as old as the delay by now.
func (in *instrument) ripen() {
	y := in.held
	if y == nil {
		return
	}
	in.held = nil
	in.quoted, in.stale = y.quoted, y.stale
	in.phase, in.reason, in.until = y.phase, y.reason, y.until
	for _, t := range in.channels[wire.Quotes].tiers {
		t.bid, t.ask, t.stamp = in.bid, in.ask, in.quoted
	}
	// Rows that the journal lost never came: their numbers are passed over.
	for _, c := range [...]wire.Channel{wire.Trades, wire.Status} {
		if t := in.tape(c); t.Last < y.tape(c).Last {
			*t = *y.tape(c)
		}
	}
	list := []wire.Channel{wire.Trades, wire.Status, wire.Summary}
	if y.bars != nil {
		in.bars, in.sum, in.exchange = y.bars, y.sum, y.exchange
		in.bars.Owner = in
		for i := range market.NumIntervals {
			list = append(list, wire.BarsOf(i))
		}
	}
	for _, c := range list {
		if was, k := &in.channels[c], &y.channels[c]; was.n < k.n {
			was.n, was.at = k.n, k.at
			for _, t := range was.tiers {
				t.n, t.at = k.n, k.at
			}
		}
	}
}

// sent is what is on its way again.
type sent struct {
	pos uint64
	d   delayed
}

// way reads back what of an instrument is on its way.
type way struct {
	hub   *Hub
	in    *instrument // of the line
	until int64       // publication of what was told already, at the latest
	room  int64       // bytes; under 0: there is more than may be
	list  []sent
}

// restoreWay finds what of an instrument was told under a delay, by the journal, and puts the rest on
// its way again.
func (h *Hub) restoreWay(in, x *instrument) error {
	ln := x.line
	now := time.Now().UnixNano()
	w := way{hub: h, in: x, until: now - ln.delay, room: h.cfg.DelayBytes - ln.bytes}
	trades, err := w.back(journal.Series{Instrument: x.id, Channel: journal.Trades}, in.trades.Last)
	if err != nil {
		return err
	}
	statuses, err := w.back(journal.Series{Instrument: x.id, Channel: journal.Statuses}, in.statuses.Last)
	if err != nil {
		return err
	}
	n := in.channels[wire.Summary].n
	figures, err := w.back(journal.Series{Instrument: x.id, Channel: journal.Summaries}, n)
	if err != nil {
		return err
	}
	status, err := h.statusUntil(in, statuses.n, w.until)
	if err != nil {
		return err
	}
	// From here on nothing fails: x is never half of the one and half of the other.
	x.trades = h.toldUpTo(trades.n, trades.at)
	x.channels[wire.Trades].n, x.channels[wire.Trades].at = trades.n, trades.at
	x.statuses = h.toldUpTo(statuses.n, status.Time)
	x.channels[wire.Status].n, x.channels[wire.Status].at = statuses.n, statuses.at
	x.phase, x.reason, x.until = status.Phase, status.Reason, status.Until
	sum := &x.channels[wire.Summary]
	sum.n, sum.at = n-min(n, trades.later+figures.later), max(trades.at, figures.at)
	for i := range market.NumIntervals {
		c := wire.BarsOf(i)
		x.channels[c].n, x.channels[c].at = in.channels[c].n, in.channels[c].at
	}
	if err := h.restoreDay(context.Background(), x, w.until); err != nil {
		h.log.Error("delayed bars could not be taken up", "instrument", x.id, "error", err)
		for i := range market.NumIntervals {
			x.channels[wire.BarsOf(i)].n = 0
			*x.barTape(i) = recent.Rows{}
		}
	}
	w.send(now)
	return nil
}

// turned is where a sequence turns from what was told to what is on its way.
type turned struct {
	n     uint64 // of the newest row that was told
	at    int64  // its publication; 0: not known
	later uint64 // rows since
}

// back reads a sequence that stands at n back to the newest row that was told. What
// it has passed is on its way; nothing of it, where rows of it are lost, since the others would get false numbers.
func (w *way) back(s journal.Series, n uint64) (turned, error) {
	t := turned{n: n}
	if n == 0 {
		return t, nil
	}
	begin, whole := len(w.list), true
	err := w.hub.cfg.Journal.Read(context.Background(), s, journal.Range{Epoch: w.hub.epoch, ToN: n, Reverse: true}, func(_ string, j *journal.Row) bool {
		if s.Channel != journal.Summaries && j.N != t.n {
			whole = false
		}
		if j.At <= w.until {
			t.n, t.at = j.N, j.At
			return false
		}
		t.n = j.N - 1
		t.later++
		if w.room >= 0 && whole {
			d := delayed{in: w.in, e: recent.EventOf(j), at: j.At}
			w.room -= d.size()
			w.list = append(w.list, sent{j.Position, d})
		}
		return true
	})
	if s.Channel != journal.Summaries {
		t.later = n - t.n
	}
	if !whole {
		w.list = w.list[:begin]
	}
	return t, err
}

// send puts what was found on its way again, and a last moment of the clock of the bars: those that are
// over are told then, if no trade comes before.
func (w *way) send(now int64) {
	h, ln := w.hub, w.in.line
	switch {
	case ln.broken:
		return
	case w.room < 0:
		ln.snap(h)
		return
	}
	shift := h.clock() + ln.delay - now // from publication to when it is due
	slices.SortFunc(w.list, func(a, b sent) int { return cmp.Compare(a.pos, b.pos) })
	for i := range w.list {
		d := &w.list[i].d
		d.due = d.at + shift
		ln.bytes += d.size()
		ln.again = append(ln.again, *d)
	}
	if len(w.list) > 0 {
		ln.mixed = true
		h.kickClock()
	}
	ln.push(h, delayed{due: h.clock() + ln.delay, exchange: h.exchangeOf(w.in), at: now})
}

// statusUntil is how the status of an instrument stood after its status n, the newest one of until a time.
func (h *Hub) statusUntil(in *instrument, n uint64, until int64) (s journal.Row, err error) {
	if n == 0 {
		return s, nil
	}
	if n == in.statuses.Last && in.statusChannel().at <= until {
		s.Phase, s.Reason, s.Until, s.Time = in.phase, in.reason, in.until, in.statuses.LastAt
		if r, _ := in.statuses.Newest(func(r *recent.Row) bool { return r.Phase == in.phase }); r != nil {
			s.Time = r.Time
		}
		return s, nil
	}
	series := journal.Series{Instrument: in.id, Channel: journal.Statuses}
	err = h.cfg.Journal.Read(context.Background(), series, journal.Range{Epoch: h.epoch, ToN: n, Reverse: true}, func(_ string, j *journal.Row) bool {
		if j.Phase.OfFeed() || j.At > until {
			return true
		}
		s.Phase, s.Reason, s.Until, s.Time = j.Phase, j.Reason, j.Until, j.Time
		return false
	})
	return s, err
}
