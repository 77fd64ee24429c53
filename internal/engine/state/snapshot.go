package state

import (
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Status is the trading status of an instrument or a market.
type Status struct {
	Phase  market.Phase
	Reason string
	Since  int64 // Unix ns; 0: not known
	Until  int64 // next expected change, Unix ns; 0: not known
}

// Status returns the trading status.
func (in *Instrument) Status() Status {
	s := Status{Phase: in.Phase, Reason: in.Reason, Until: in.Until}
	if in.Down {
		s = Status{Phase: market.FeedDown}
	}
	if r, _ := in.Statuses.Newest(func(r *recent.Row) bool { return r.Phase == s.Phase }); r != nil {
		s.Since = r.Time
	}
	return s
}

// AppendStatus appends the payload of a status with R:true.
func (in *Instrument) AppendStatus(b []byte, phase market.Phase, reason string, until int64) []byte {
	s := Stamp{in.Statuses.LastAt, -1}
	if r, _ := in.Statuses.Newest(func(r *recent.Row) bool { return r.Phase == phase }); r != nil {
		s = Stamp{r.Time, r.Latency}
	}
	hd := in.Header(in.Statuses.Last, s)
	return wire.AppendStatus(b, &hd, phase, reason, until, true)
}

// AppendQuote appends the payload of a quote with R:true, with the N of the newest one; ok is false
// if there is none.
func (in *Instrument) AppendQuote(b []byte) (_ []byte, ok bool) {
	n := in.Sequences[wire.Quotes].N
	if n == 0 || in.Quoted == (Stamp{}) {
		return b, false
	}
	hd := in.Header(n, in.Quoted)
	return wire.AppendQuote(b, &hd, in.Bid, in.Ask, true), true
}

// AppendSnapshot appends a JSON object with the identifier and the newest messages. With the right
// to trades these are the last trade T and the summary D, with the right to quotes the quote Q, and
// always the status H. A message that does not exist is left out.
func (in *Instrument) AppendSnapshot(b []byte, trades, quotes bool) []byte {
	b = append(b, `{"instrument":`...)
	b = wire.AppendString(b, in.Def.ID.String())
	if trades {
		if r, n := in.Trades.Newest(func(r *recent.Row) bool { return r.Kind == market.KindTrade }); r != nil {
			b = append(b, `,"T":`...)
			b = r.Message(b, in.Ident, n)
		}
	}
	if quotes {
		b = appendMember(b, `,"Q":`, in.AppendQuote)
	}
	if trades {
		b = appendMember(b, `,"D":`, in.AppendSummary)
	}
	if in.Phase != market.NoPhase { // a replica has no state of an instrument whose first row is not due
		b = append(b, `,"H":`...)
		b = in.AppendStatus(b, in.Phase, in.Reason, in.Until)
	}
	return append(b, '}')
}

// appendMember appends a member of an object, if there is a value.
func appendMember(b []byte, key string, value func([]byte) ([]byte, bool)) []byte {
	if c, ok := value(append(b, key...)); ok {
		return c
	}
	return b
}
