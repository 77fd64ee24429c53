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
