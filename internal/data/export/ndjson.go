package export

import (
	"fmt"
	"io"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// messages writes rows as messages of the stream, byte for byte as they were sent, one per line.
// Messages of books are those with all levels (depth 0).
type messages struct {
	w       io.Writer
	b       []byte
	scratch []byte
	bids    []market.Level
	asks    []market.Level
}

func newMessages(w io.Writer) *messages { return &messages{w: w} }

func (m *messages) put(in *listing, _ string, r *journal.Row, _ bool) error {
	h := wire.Header{Ident: in.ident, N: r.N, Time: r.Time, Latency: r.Latency}
	switch r.Kind {
	case journal.Trade:
		m.trade(&h, r, market.KindTrade)
	case journal.Cancel:
		m.trade(&h, r, market.KindCancel)
	case journal.Correct:
		m.trade(&h, r, market.KindCorrect)
	case journal.Quote:
		bid, _ := top(r.Bids)
		ask, _ := top(r.Asks)
		m.b = wire.AppendQuote(m.b, &h, bid, ask, false)
	case journal.Bar:
		k := &r.Bar
		m.b = wire.AppendBar(m.b, &h, &wire.Bar{Interval: k.Interval, Revised: k.Revised, TradingDate: in.date(r.Time),
			Open: k.First, High: k.High, Low: k.Low, Close: k.Last,
			Volume: k.Volume, Value: k.Value, Trades: k.Trades})
	case journal.BookState, journal.BookUpdate:
		m.book(in, &h, r)
	case journal.BookLost:
		return nil // it has no message of its own
	default:
		return fmt.Errorf("a row of kind %d is in no table", r.Kind)
	}
	m.b = append(m.b, '\n')
	if len(m.b) < flushAt {
		return nil
	}
	return m.flush()
}

func (m *messages) flush() error {
	_, err := m.w.Write(m.b)
	m.b = m.b[:0]
	return err
}

func (m *messages) close([]Lost) error { return m.flush() }

func (m *messages) trade(h *wire.Header, r *journal.Row, kind market.Kind) {
	m.b = wire.AppendTrade(m.b, h, &wire.Trade{Kind: kind, Side: r.Side, Price: r.Price, Size: r.Size, ID: r.ID,
		OldPrice: r.OldPrice, OldSize: r.OldSize, RefN: r.RefN, TradeDetails: r.TradeDetails})
}

// book appends the message of a row that was applied to the listing's book.
func (m *messages) book(in *listing, h *wire.Header, r *journal.Row) {
	const n = 10 // levels per side that the checksum covers
	b := &in.book
	m.bids, m.asks = b.Append(m.bids[:0], market.Buy, n), b.Append(m.asks[:0], market.Sell, n)
	var sum uint32
	sum, m.scratch = wire.Checksum(m.scratch, m.bids, m.asks, n, in.PriceDecimals, in.SizeDecimals)
	if r.Kind == journal.BookState {
		m.b = wire.AppendBookState(m.b, h, 0, r.Bids, r.Asks, sum)
		return
	}
	m.b = wire.AppendBookUpdate(m.b, h, b.previous, r.Bids, r.Asks, sum)
}
