package tier

import (
	"github.com/ruedahq/rueda/internal/engine/book"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/internal/engine/state"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Encoder encodes messages as frames. It reuses its memory: the result of a method is valid until
// the next call. The zero Encoder is ready for use.
type Encoder struct {
	payload, frame, sum []byte
	levels, top         book.Levels
}

// framed returns the frame of the payload.
func (e *Encoder) framed() []byte {
	e.frame = wire.AppendText(e.frame[:0], e.payload)
	return e.frame
}

// Row returns the message of a row with the given N.
func (e *Encoder) Row(r *recent.Row, of wire.Ident, n uint64) []byte {
	e.payload = r.Message(e.payload[:0], of, n)
	return e.framed()
}

// Summary returns summary n of an instrument.
func (e *Encoder) Summary(in *state.Instrument, n uint64, s state.Stamp) []byte {
	hd, m := in.Header(n, s), in.Summary()
	e.payload = wire.AppendSummary(e.payload[:0], &hd, &m, false)
	return e.framed()
}

// Quote returns quote n, as it is now.
func (e *Encoder) Quote(in *state.Instrument, n uint64) []byte { return e.quote(in, n, in.Quoted) }

func (e *Encoder) quote(in *state.Instrument, n uint64, s state.Stamp) []byte {
	hd := in.Header(n, s)
	e.payload = wire.AppendQuote(e.payload[:0], &hd, in.Bid, in.Ask, false)
	return e.framed()
}

// SetQuote notes that the present quote is sent in a tier.
func (t *State) SetQuote(in *state.Instrument) { t.bid, t.ask, t.stamp = in.Bid, in.Ask, in.Quoted }

// Changes returns update n with the changes of the book that a tier without conflation shows, or
// nil if it shows none.
func (e *Encoder) Changes(in *state.Instrument, t *State, changes []book.Change, n uint64) []byte {
	switch {
	case t.Depth == 0:
		e.levels.Split(changes)
		return e.update(in, t, n, in.Changed)
	case t.view.Sees(changes):
		return e.advance(in, t, n, in.Changed)
	}
	return nil
}

// Book returns the message with R:true of a book tier, as of its newest message.
func (e *Encoder) Book(in *state.Instrument, t *State) []byte {
	e.payload, _ = e.appendBook(e.payload[:0], in, t)
	return e.framed()
}

// Conflated returns the message of the newest state of a conflated tier, or nil if it has not
// changed since the newest message. now is the present time in Unix ns.
func (e *Encoder) Conflated(in *state.Instrument, c wire.Channel, t *State, now int64) []byte {
	t.Dirty = false
	n := in.Sequences[c].N
	switch {
	case c == wire.OrderBook:
		if in.Stale {
			return nil
		}
		return e.advance(in, t, n, t.due.AsOf(now))
	case t.bid == in.Bid && t.ask == in.Ask && t.N > 0:
		return nil
	}
	t.SetQuote(in)
	return e.quote(in, n, t.stamp.AsOf(now))
}

// advance returns update n with all changes of the book since the newest message of a tier, or nil
// if there are none.
func (e *Encoder) advance(in *state.Instrument, t *State, n uint64, s state.Stamp) []byte {
	if t.view.Advance(&e.levels, &e.top, &in.Book); e.levels.Empty() {
		return nil
	}
	return e.update(in, t, n, s)
}

// update returns the levels as update n, which follows the newest message of the tier.
func (e *Encoder) update(in *state.Instrument, t *State, n uint64, s state.Stamp) []byte {
	hd, best := in.Header(n, s), wire.ChecksumLevels(t.Depth)
	e.top.Read(&in.Book, best)
	e.payload = wire.AppendBookUpdate(e.payload[:0], &hd, t.N, e.levels.Bids, e.levels.Asks, e.checksum(in, &e.top, best))
	t.stamp = s
	return e.framed()
}

// checksum returns the checksum K of the best n levels.
func (e *Encoder) checksum(in *state.Instrument, l *book.Levels, n int) (k uint32) {
	k, e.sum = wire.Checksum(e.sum, l.Bids, l.Asks, n, in.Def.PriceDecimals, in.Def.SizeDecimals)
	return k
}

// appendBook appends the payload of a book tier as of its newest message. ok is false while the
// book is not known.
func (e *Encoder) appendBook(b []byte, in *state.Instrument, t *State) (_ []byte, ok bool) {
	if in.Stale || t.N == 0 {
		return b, false
	}
	e.levels.Read(&in.Book, t.Depth)
	if t.Dirty {
		t.view.Last(&e.levels)
	}
	k := e.checksum(in, &e.levels, wire.ChecksumLevels(t.Depth))
	hd := in.Header(t.N, t.stamp)
	return wire.AppendBookState(b, &hd, t.Depth, e.levels.Bids, e.levels.Asks, k), true
}

// AppendBook appends the payload of a message with R:true that has the present book at a depth.
func (e *Encoder) AppendBook(dst []byte, in *state.Instrument, depth int) []byte {
	t := State{Tier: Tier{Depth: depth}, N: in.Sequences[wire.OrderBook].N, stamp: in.Changed}
	dst, _ = e.appendBook(dst, in, &t)
	return dst
}

// AppendState appends the framed snapshot of a tier of quotes, books or summaries, as of its newest
// message. It appends nothing if there is no such message.
func (e *Encoder) AppendState(dst []byte, in *state.Instrument, c wire.Channel, t *State) []byte {
	ok := false
	switch c {
	case wire.Quotes:
		if ok = in.Sequences[wire.Quotes].N > 0 && t.N > 0 && t.stamp != (state.Stamp{}); ok {
			hd := in.Header(t.N, t.stamp)
			e.payload = wire.AppendQuote(e.payload[:0], &hd, t.bid, t.ask, true)
		}
	case wire.Summary:
		e.payload, ok = in.AppendSummary(e.payload[:0])
	default:
		e.payload, ok = e.appendBook(e.payload[:0], in, t)
	}
	if ok {
		dst = wire.AppendText(dst, e.payload)
	}
	return dst
}

// AppendStatus appends a framed status with R:true.
func (e *Encoder) AppendStatus(dst []byte, in *state.Instrument, phase market.Phase, reason string, until int64) []byte {
	e.payload = in.AppendStatus(e.payload[:0], phase, reason, until)
	return wire.AppendText(dst, e.payload)
}
