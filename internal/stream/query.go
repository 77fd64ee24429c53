package stream

import (
	"errors"
	"slices"

	"github.com/ruedahq/rueda/internal/position"
	"github.com/ruedahq/rueda/internal/recent"
	"github.com/ruedahq/rueda/internal/state"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// State is the trading status of an instrument or a market.
type State struct {
	Phase  market.Phase
	Reason string
	Since  int64 // Unix ns; 0: not known
	Until  int64 // next expected change, Unix ns; 0: not known
}

// Instruments lists what is defined, with its present phase, in the order of
// definition. version rises with every definition.
func (h *Hub) Instruments() (list []market.Instrument, version uint64) {
	h.mu.Lock()
	n := len(h.listed)
	h.mu.Unlock()
	list = make([]market.Instrument, 0, n) // megabytes: not under the lock
	h.mu.Lock()
	defer h.mu.Unlock()
	version = h.version
	for _, in := range h.listed {
		list = append(list, in.Def)
		list[len(list)-1].Phase = in.Phase
		h.step()
	}
	return list, version
}

// Instrument is the definition of a listed instrument, with its present phase.
func (h *Hub) Instrument(id market.InstrumentID) (market.Instrument, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	in := h.lookup(id)
	if in == nil {
		return market.Instrument{}, false
	}
	def := in.Def
	def.Phase = in.Phase
	return def, true
}

// Suggest is the listed identifier that somebody may have meant who wrote id.
func (h *Hub) Suggest(id market.InstrumentID) (market.InstrumentID, bool) {
	return h.catalog.Suggest(id)
}

// Markets lists the markets.
func (h *Hub) Markets() []market.Market {
	return h.catalog.Markets()
}

// HasMarket says whether a market is listed.
func (h *Hub) HasMarket(name string) bool {
	_, ok := h.catalog.Market(name)
	return ok
}

// Status is the trading status of an instrument.
func (h *Hub) Status(id market.InstrumentID) (State, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	in := h.lookup(id)
	if in == nil {
		return State{}, false
	}
	return in.state(), true
}

// MarketStatus is the status of a market as a whole; ok is false where its feed
// or schedule has told none.
func (h *Hub) MarketStatus(name string) (s State, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.venues[name]
	if v == nil || v.Statuses.Last == 0 {
		return State{}, false
	}
	return v.state(), true
}

func (in *instrument) state() State {
	s := State{Phase: in.Phase, Reason: in.Reason, Until: in.Until}
	if in.Down {
		s = State{Phase: market.FeedDown}
	}
	if r, _ := in.Statuses.Newest(func(r *recent.Row) bool { return r.Phase == s.Phase }); r != nil {
		s.Since = r.Time
	}
	return s
}

// Wanted is an instrument of a Snapshot, with what may be told of it.
type Wanted struct {
	ID     market.InstrumentID
	Trades bool
	Quotes bool
	Delay  int // seconds; one of Config.Delays, or 0
}

// Snapshot appends, for each listed instrument of list, a JSON object with its identifier and its
// newest messages: the last trade T, the quote Q, the summary D (with the right to trades) and the
// status H, each left out where it is not wanted or there is none. The rows are separated by
// commas. All of them are as of the position, so that they can seed a resume. What is not committed
// yet is in them too: AwaitCommit is to be called before they are given out.
func (h *Hub) Snapshot(dst []byte, list []Wanted) (_ []byte, epoch, pos string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commit()
	comma := false
	places := []position.Delayed{}
	for _, w := range list {
		in := h.lookupItem(Item{ID: w.ID, Tier: Tier{Delay: w.Delay}})
		if in == nil {
			continue
		}
		i := slices.IndexFunc(places, func(x position.Delayed) bool { return x.Delay == w.Delay })
		if i < 0 {
			i = len(places)
			places = append(places, position.Delayed{Delay: w.Delay, Position: h.reached(w.Delay)})
		}
		places[i].Position = max(places[i].Position, in.pos)
		if comma {
			dst = append(dst, ',')
		}
		comma = true
		dst = append(dst, `{"instrument":`...)
		dst = wire.AppendString(dst, w.ID.String())
		if r, n := in.Trades.Newest(isTrade); r != nil && w.Trades {
			dst = append(dst, `,"T":`...)
			dst = r.Message(dst, in.Ident, n)
		}
		if n := in.Sequences[wire.Quotes].N; n > 0 && w.Quotes && in.Quoted != (state.Stamp{}) {
			hd := in.Header(n, in.Quoted)
			dst = append(dst, `,"Q":`...)
			dst = wire.AppendQuote(dst, &hd, in.Bid, in.Ask, true)
		}
		if in.Sequences[wire.Summary].N > 0 && w.Trades {
			dst = append(dst, `,"D":`...)
			dst, _ = in.AppendSummary(dst)
		}
		if in.Phase != market.NoPhase { // of one that a replica has not come to yet nothing is known
			dst = append(dst, `,"H":`...)
			dst = in.AppendStatus(dst, in.Phase, in.Reason, in.Until)
		}
		dst = append(dst, '}')
	}
	if len(places) == 0 {
		return dst, h.epoch, position.At(h.committed).Text(h.epoch)
	}
	return dst, h.epoch, position.Of(places).Text(h.epoch)
}

func isTrade(r *recent.Row) bool { return r.Kind == market.KindTrade }

// ErrStale says that a book is not known at present: its feed lost something and
// has not sent a snapshot since.
var ErrStale = errors.New("order book not known at present")

// AppendBook appends an O message with R:true: the book of an instrument to the tier's depth and
// delay. AwaitCommit is to be called before it is given out. Errors: market.ErrUnknownInstrument,
// ErrNoBook, ErrStale.
func (h *Hub) AppendBook(dst []byte, id market.InstrumentID, tier Tier) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commit()
	depth := tier.Depth
	in := h.lookupItem(Item{ID: id, Tier: tier})
	switch {
	case in == nil:
		return dst, market.ErrUnknownInstrument
	case in.Def.NoBook:
		return dst, ErrNoBook
	case in.Stale:
		return dst, ErrStale
	}
	t := tierState{tier: Tier{Depth: depth}, n: in.Sequences[wire.OrderBook].N, stamp: in.Changed}
	dst, _ = h.appendBook(dst, in, &t)
	return dst, nil
}

// ErrNoBook says that an instrument has no order book.
var ErrNoBook = errors.New("the instrument has no order book")
