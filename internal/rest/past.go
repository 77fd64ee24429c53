package rest

import (
	"errors"
	"fmt"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/internal/stream"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// pastBook is GET /market/book?at=: the book as it was at a time, in one O message. The rights were
// checked; delay is the user's.
func (h *Handler) pastBook(q *request, id market.InstrumentID, depth, delay int, text string) (result, error) {
	if f := q.needScope(broker.ScopeHistory); f != nil {
		return result{}, f
	}
	at, f := parseInstant("at", text)
	if f != nil {
		return result{}, f
	}
	if h.cfg.Journal == nil {
		return result{}, noJournal()
	}
	in, _ := h.cfg.Hub.Instrument(id)
	if in.NoBook {
		return result{}, &wire.Fault{Reason: wire.NotFound, Msg: "The instrument has no order book"}
	}
	newest := time.Now().UnixNano() - int64(delay)*int64(time.Second)
	if at > newest && !in.VirtualClock {
		return result{}, wire.NewFailure(wire.BadField, "at", "is later than what has been told")
	}
	free, leave, err := h.readers.take(q.Context(), q.user.ID)
	if err != nil {
		return result{}, err
	}
	defer leave()
	defer free()
	if err := h.awaitCommit(q); err != nil {
		return result{}, err
	}
	book, err := h.cfg.Journal.BookAt(q.Context(), id, at)
	switch {
	case q.Context().Err() != nil:
		return result{}, errGone
	case errors.Is(err, journal.ErrNoBook):
		return result{}, &wire.Fault{Reason: wire.NotFound, Msg: "The order book was not known then"}
	case errors.Is(err, journal.ErrNotKept):
		return result{}, &wire.Fault{Reason: wire.NotFound, Msg: "That time is not kept", Hint: h.keptHint()}
	case err != nil:
		return result{}, fmt.Errorf("read the book of %s: %w", id, err)
	}
	if delay > 0 && !h.toldLate(&in, &book, delay, newest) {
		return result{}, wire.NewFailure(wire.BadField, "at", "is later than what has been told")
	}
	q.out.Set("Cache-Control", "private, no-cache")
	return result{object: appendPast(&in, &book, depth, delay)}, nil
}

// toldLate says that the delayed stream has told a book.
func (h *Handler) toldLate(in *market.Instrument, book *journal.BookSnapshot, delay int, newest int64) bool {
	if !in.VirtualClock {
		return book.At <= newest
	}
	return book.Epoch != h.cfg.Journal.Epoch() ||
		book.N <= h.cfg.Hub.Newest(stream.Item{Channel: wire.OrderBook, ID: in.ID, Tier: stream.Tier{Delay: delay}})
}

// appendPast makes the message of a book of the past. When it was published is not told: nobody was
// sent it.
func appendPast(in *market.Instrument, book *journal.BookSnapshot, depth, delay int) []byte {
	ident := wire.MakeIdent(in.ID)
	if delay > 0 {
		ident = ident.Delayed(int64(delay) * int64(time.Second))
	}
	bids, asks := book.Bids, book.Asks
	if depth > 0 {
		bids, asks = bids[:min(depth, len(bids))], asks[:min(depth, len(asks))]
	}
	sum, _ := wire.Checksum(nil, bids, asks, wire.ChecksumLevels(depth), in.PriceDecimals, in.SizeDecimals)
	header := wire.Header{Ident: ident, N: book.N, Time: book.Time, Latency: -1}
	return wire.AppendBookState(nil, &header, depth, bids, asks, sum)
}

// keptHint says from when on there is history.
func (h *Handler) keptHint() string {
	days := h.cfg.Journal.Days()
	if len(days) == 0 {
		return "Nothing is kept yet"
	}
	return "Kept from " + string(wire.AppendTime(nil, days[0].Complete)) + " on"
}
