package hub

import (
	"time"

	"github.com/ruedahq/rueda/internal/engine/state"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// SetCurrent states whether a hub that follows another one has its newest rows. While it does not,
// the feeds of all markets count as down: their subscribers receive feed_down, and later feed_up
// and the books. These messages are states, with R:true and the N of the newest message, because
// the log knows nothing of it. N is 0 if a market has had no status.
func (h *Hub) SetCurrent(current bool) {
	h.feeding.Lock()
	defer h.feeding.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.endOnPanic()
	if (h.cut == 0) == current {
		return
	}
	phase, reason, now := market.FeedDown, "cut_off", time.Now().UnixNano()
	h.cut = now
	if current {
		phase, reason, h.cut = market.FeedUp, "", 0
	}
	for _, v := range h.venuesOf(market.Any) {
		if v.Down { // which its feed has stated
			continue
		}
		rec := Record{Position: h.position, N: v.Statuses.Last, At: now, Of: v, Flag: noticeOf(phase)}
		hd := v.Header(rec.N, state.Stamp{Time: now, Latency: -1})
		frame := wire.AppendText(nil, wire.AppendStatus(nil, &hd, phase, reason, 0, true))
		for _, t := range h.tiers(v, v.StatusChannel()) {
			h.emit(t, frame, rec)
		}
	}
	for i := 0; current && i < len(h.groups.All()); i++ {
		in := h.groups.All()[i]
		h.sendBook(in, now)
		for _, x := range in.later {
			h.sendBook(x, now)
		}
		h.stepPublishing()
	}
	h.published()
}

// sendBook sends a book that is known to its readers, as a state.
func (h *applier) sendBook(in *Instrument, now int64) {
	tiers, n := h.tiers(in, wire.OrderBook), in.Sequences[wire.OrderBook].N
	if in.Stale || in.Def.NoBook || n == 0 {
		return
	}
	for _, t := range tiers {
		t.Reset(&in.Instrument, n)
		h.emit(t, h.encoder.Book(&in.Instrument, &t.State), Record{Position: h.newest(in), N: n, At: now, Of: in})
	}
}

// IsCutOff reports whether the hub of a port is not current. The hub's lock is held.
func IsCutOff(p *Port) bool { return p.hub.cut != 0 }

// AppendDown appends the framed FeedDown of a market for a subscriber who comes while its feed is
// down, or the hub is cut off. The hub's lock is held.
func AppendDown(dst []byte, p *Port, v *Instrument) []byte {
	if v.Down {
		return p.AppendStatus(dst, v, market.FeedDown, "", 0)
	}
	hd := v.Header(v.Statuses.Last, state.Stamp{Time: p.hub.cut, Latency: -1})
	return wire.AppendText(dst, wire.AppendStatus(nil, &hd, market.FeedDown, "cut_off", 0, true))
}
