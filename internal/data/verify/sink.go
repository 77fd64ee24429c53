package verify

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// Sink is a feed.Sink that verifies what a feed publishes.
type Sink struct {
	mu      sync.Mutex
	v       *Verifier
	handles []*instrument
	byID    map[string]market.Handle
	events  int64
	gaps    uint64
	applied uint64
}

// NewSink returns a Sink. Its positions count events.
func NewSink(c Config) *Sink {
	c.Ordered = true
	return &Sink{v: New(c), byID: map[string]market.Handle{}}
}

// Records adds how many of all records of a file were used, and with how many market data was lost.
// skipped lists all records that were not used, by reason. If manyLost is set, the loss is a
// finding, and so is a file of which nothing was used.
func (s *Sink) Records(all, used, lost int, skipped string, manyLost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.v.checks[Records]
	t.Judged += uint64(used)
	if skipped != "" {
		s.v.Note("records that were not used: %s", skipped)
	}
	if used == 0 {
		s.v.wrong(Records, nil, Position{}, "none of the %s of the file could be used", Figure{"records", uint64(all)})
		return
	}
	if !manyLost {
		t.Unjudged += uint64(lost)
		return
	}
	s.v.wrong(Records, nil, Position{}, "%s of %s records could not be used", group(uint64(lost)), group(uint64(used+lost)))
	t.Wrong += uint64(lost) - 1
}

// Define implements feed.Sink.
func (s *Sink) Define(def market.Instrument) (market.Handle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := def.ID.String()
	whole := def.ID.Symbol == market.Any && def.ID.Term == market.Any
	if !whole {
		if err := def.Validate(); err != nil {
			return 0, err
		}
		s.v.Define([]market.Instrument{def})
	}
	if h, ok := s.byID[id]; ok {
		return h, nil
	}
	in := s.v.instrument(id)
	if in == nil {
		return 0, errors.New("too many instruments")
	}
	if !whole {
		in.phases.set(math.MinInt64, cmp.Or(def.Phase, market.Open))
	}
	in.known = def.StartsEmpty
	h := market.Handle(len(s.handles))
	s.handles = append(s.handles, in)
	s.byID[id] = h
	return h, nil
}

// Publish implements feed.Sink. It rejects nothing; inconsistencies are findings.
func (s *Sink) Publish(events []market.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range events {
		s.events++
		s.event(&events[i])
	}
	return nil
}

// Note adds a sentence to the report.
func (s *Sink) Note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.v.Note(format, args...)
}

// Unreadable records why the source ended early.
func (s *Sink) Unreadable(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.v.Unreadable(s.events+1, err)
}

// Report returns the report of everything published so far.
func (s *Sink) Report() *Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.v.Report()
	r.Unit = "event"
	r.Figures = append(r.Figures, Figure{applied, s.applied}, Figure{"gaps", s.gaps})
	return r
}

func (s *Sink) event(e *market.Event) {
	v := s.v
	v.judged(Message)
	p := Position{Line: s.events, N: e.Sequence, Time: e.Time}
	if int(e.Handle) >= len(s.handles) {
		v.wrong(Message, nil, p, "an event of handle %d, which is not defined", e.Handle)
		return
	}
	in := s.handles[e.Handle]
	if p.Time == 0 {
		p.Time = e.Receive
	}
	if text := invalid(e); text != "" {
		v.wrong(Message, in, p, "%s", text)
		return
	}
	switch e.Kind {
	case market.KindTrade, market.KindCancel, market.KindCorrect:
		in.tradeEvent(p, e)
	case market.KindQuote:
		v.counts["Q"]++
		in.time(&in.quotes, p, "quotes")
		if len(e.Bids) > 1 || len(e.Asks) > 1 {
			v.wrong(Message, in, p, "a quote with more than one level per side")
			return
		}
		in.quote(p, e.Bids, e.Asks)
	case market.KindSnapshot, market.KindUpdate:
		v.counts["O"]++
		in.time(&in.books, p, "order_book")
		s.levels(in, p, e)
	case market.KindOrderAdd, market.KindOrderModify, market.KindOrderDelete, market.KindOrderFill, market.KindOrderReplace:
		v.counts["O"]++
		in.time(&in.books, p, "order_book")
		s.order(in, p, e)
	case market.KindStatus:
		v.counts["H"]++
		in.status(p, e.Phase)
	case market.KindGap:
		s.gaps++
		if e.Reason == replayRestarted {
			in.restart()
		} else if in.known {
			v.judged(Chain)
			v.wrong(Chain, in, p, "the source lost events: %s", e.Reason)
		}
		in.markStale()
	case market.KindReference:
	default:
		v.wrong(Message, in, p, "an event of unknown kind %d", e.Kind)
	}
}

// invalid returns what is wrong with an event by itself, "" if nothing is.
func invalid(e *market.Event) string {
	if e.Time < 0 || e.Receive < 0 {
		return "a time before 1970"
	}
	if !e.Price.Exact() || !e.OldPrice.Exact() || !e.Size.Exact() || !e.OldSize.Exact() ||
		!e.PreviousClose.Exact() || !e.Settlement.Exact() || !e.OpenInterest.Exact() {
		return fmt.Sprintf("price %s or size %s is negative or has more than %d digits", e.Price, e.Size, market.MaxDigits)
	}
	for _, side := range [2][]market.Level{e.Bids, e.Asks} {
		for _, l := range side {
			if !l.Price.Exact() || !l.Size.Exact() {
				return fmt.Sprintf("level %s x %s is negative or has more than %d digits", l.Price, l.Size, market.MaxDigits)
			}
		}
	}
	return ""
}

// tradeEvent checks a trade, cancellation or correction of a source. Events have no N, so
// tradeEvent numbers them itself. It finds the trade that a cancellation or correction refers to by
// its id.
func (in *instrument) tradeEvent(p Position, e *market.Event) {
	v := in.v
	if e.Size == 0 {
		v.wrong(Message, in, p, "a trade of size 0")
		return
	}
	m := stream.Message{Kind: stream.Trade, N: in.trades.n + 1, Trade: wire.Trade{
		Kind: e.Kind, Side: e.Side, ID: e.TradeID, Price: e.Price, Size: e.Size, OldPrice: e.OldPrice, OldSize: e.OldSize,
		TradeDetails: e.TradeDetails,
	}}
	v.counts[typeOf(&m)]++
	if v.config.UpdateIDs && e.Kind == market.KindTrade {
		v.judged(Sequence)
		if before := in.tradeID; before > 0 && e.Sequence != before+1 {
			if e.Sequence <= before {
				v.wrong(Sequence, in, p, "trades: %d came after %d", e.Sequence, before)
			} else {
				v.wrong(Sequence, in, p, "trades: %s", missing(before+1, e.Sequence-1))
			}
		}
		in.tradeID = e.Sequence
	}
	in.late(p, e.Kind)
	in.trades.n++
	if e.Kind != market.KindTrade {
		m.Trade.RefN = in.log.ids[e.TradeID]
	}
	in.trade(p, &m)
}

// levels applies a snapshot or an update of a book.
func (s *Sink) levels(in *instrument, p Position, e *market.Event) {
	if e.Kind == market.KindSnapshot {
		in.markStale()
		if in.orders != nil && len(e.Bids)+len(e.Asks) == 0 {
			in.known = true // an empty snapshot starts a book of orders
			return
		}
		in.orders, in.book = nil, &in.levels
		in.setBook(p, e.Bids, e.Asks)
		switch {
		case !in.known:
		case s.v.config.UpdateIDs:
			in.uncrossed(p) // snapshots do not belong to the stream that quotes are compared with
		default:
			in.topChanged(p)
		}
		return
	}
	if !in.known {
		s.v.unjudged(Chain)
		return
	}
	s.v.judged(Chain)
	s.applied++
	if in.change(p, e.Bids, e.Asks, false) {
		in.topChanged(p)
	}
}

// order applies an order-by-order event.
func (s *Sink) order(in *instrument, p Position, e *market.Event) {
	if !in.known {
		s.v.unjudged(Chain)
		return
	}
	if in.orders == nil {
		if in.book.Len(market.Buy)+in.book.Len(market.Sell) > 0 {
			s.v.wrong(Orders, in, p, "an order event in a book of levels")
			return
		}
		in.orders = new(market.OrderBook)
		in.book = in.orders.Book()
	}
	s.v.judged(Orders)
	var err error
	switch e.Kind {
	case market.KindOrderAdd:
		_, err = in.orders.Add(e.OrderID, e.Side, e.Price, e.Size)
	case market.KindOrderModify:
		_, _, _, err = in.orders.Modify(e.OrderID, e.Price, e.Size)
	case market.KindOrderReplace:
		_, _, _, err = in.orders.Replace(e.OrderID, e.NewID, e.Price, e.Size)
	case market.KindOrderDelete:
		_, _, err = in.orders.Delete(e.OrderID)
	case market.KindOrderFill:
		_, _, err = in.orders.Fill(e.OrderID, e.Size)
	}
	if err != nil {
		s.v.wrong(Orders, in, p, "order %s: %v", strconv.FormatUint(e.OrderID, 10), err)
		return
	}
	s.applied++
	in.topChanged(p)
}
