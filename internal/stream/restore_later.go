package stream

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// restoreLater takes up the delayed counterpart of an instrument that the journal knew. What was
// on its way when the process ended, trades and statuses, is put on its way again; of
// quotes and books it goes on with what is published from now on, under the same numbers as the live ones.
func (h *Hub) restoreLater(in, x *instrument) {
	ln := x.line
	now := time.Now().UnixNano()
	until := now - ln.delay
	if in.def.VirtualClock {
		until = math.MaxInt64 // its times are not those of this clock
	}
	for c := range in.channels {
		x.channels[c].n, x.channels[c].at = in.channels[c].n, in.channels[c].at
	}
	x.bid, x.ask, x.quoted, x.changed = in.bid, in.ask, in.quoted, in.changed
	x.phase, x.reason, x.until = in.phase, in.reason, in.until
	if x.venue {
		return // its status is everybody's at once
	}
	shift := h.clock() + ln.delay - now // from publication to when it is due
	for _, c := range [...]wire.Channel{wire.Trades, wire.Status} {
		t := x.tape(c)
		*t = tape{last: in.tape(c).last, lastAt: in.tape(c).lastAt, dropped: h.position}
		for _, rows := range in.tape(c).chunks {
			for i := range rows {
				if r := &rows[i]; r.at > until {
					t.last--
					ln.again = append(ln.again, delayed{due: r.at + shift, in: x, e: r.event(), at: r.at})
				}
			}
		}
		onTheirWay := in.tape(c).last - t.last
		x.channels[c].n -= onTheirWay
		if c == wire.Trades {
			x.channels[wire.Summary].n -= onTheirWay
		}
	}
	if r, _ := in.statuses.newest(func(r *row) bool { return r.at <= until && r.phase != market.FeedDown && r.phase != market.FeedUp }); r != nil {
		x.phase = r.phase
	}
	slices.SortStableFunc(ln.again, func(a, b delayed) int { return cmp.Compare(a.due, b.due) })
	if err := h.restoreDay(context.Background(), x, until); err != nil {
		h.log.Error("delayed bars could not be taken up", "instrument", x.id, "error", err)
	}
	if len(ln.again) > 0 {
		h.kickClock()
	}
}

// event is the event that a row was made of.
func (r *row) event() market.Event {
	e := market.Event{Kind: r.kind, Side: r.side, Phase: r.phase, Time: r.time, Price: r.price, Size: r.size, TradeID: r.id}
	if r.latency < 0 {
		e.Time, e.Receive = 0, r.time
	}
	if m := r.more; m != nil {
		e.OldPrice, e.OldSize, e.Conditions, e.Reason, e.Until = m.oldPrice, m.oldSize, m.conditions, m.reason, m.until
	}
	return e
}
