package history

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// publishedWithin bounds how long after an event its row may be published and still count for a
// book at an event time.
const publishedWithin = time.Hour

// Book serves GET /market/book?at=, the order book of an instrument at a time, as one O message.
// The caller has checked the right to the book. delay is that of the user, in seconds, and depth
// the number of levels, 0 for all.
func (h *Routes) Book(req *api.Request, id market.InstrumentID, depth, delay int) (api.Result, error) {
	if f := req.NeedScope(broker.ScopeHistory); f != nil {
		return api.Result{}, f
	}
	at, f := parseTime(req.Params, "at", h.hub.Zone(id.Market))
	if f != nil {
		return api.Result{}, f
	}
	published, event := at+int64(publishedWithin), at
	switch req.Params.Get("by") {
	case "":
	case "published":
		published, event = at, math.MaxInt64
	default:
		return api.Result{}, wire.NewFailure(wire.BadField, "by", "must be published")
	}
	if h.journal == nil {
		return api.Result{}, noJournal()
	}
	in, _ := h.hub.Instrument(id)
	if in.NoBook {
		return api.Result{}, &wire.Fault{Reason: wire.NotFound, Msg: "The instrument has no order book"}
	}
	newest := h.hub.Present() - int64(seconds(delay))
	tooLate := wire.NewFailure(wire.BadField, "at", "is later than what has been sent")
	if !in.VirtualClock {
		if at > newest {
			return api.Result{}, tooLate
		}
		published = min(published, newest)
	}
	slot, err := h.readers.acquire(req.Context(), req.User.ID)
	if err != nil {
		return api.Result{}, err
	}
	defer slot.releaseUser()
	defer slot.release()
	if err := req.AwaitCommit(h.hub); err != nil {
		return api.Result{}, err
	}
	waits := h.waitsForDays() // before the read: days may be added meanwhile
	book, err := h.journal.BookAt(req.Context(), id, published, event)
	_, damaged := errors.AsType[*journal.Damage](err)
	switch {
	case req.Context().Err() != nil:
		return api.Result{}, api.ErrGone
	case waits && errors.Is(err, journal.ErrNotKept):
		return api.Result{}, notYet(0)
	case errors.Is(err, journal.ErrNoBook):
		return api.Result{}, &wire.Fault{Reason: wire.NotFound, Msg: "The order book was not known then"}
	case errors.Is(err, journal.ErrNotKept):
		hint := h.keptHint()
		if days := h.journal.Days(); len(days) > 0 && at >= days[0].Complete {
			hint = "Rows of the book are missing before that time"
		}
		return api.Result{}, &wire.Fault{Reason: wire.NotFound, Msg: "That time is not kept", Hint: hint}
	case damaged:
		return api.Result{}, &wire.Fault{Reason: wire.NotFound, Msg: "The rows of the order book are damaged at that time"}
	case err != nil:
		return api.Result{}, fmt.Errorf("read the book of %s: %w", id, err)
	}
	if delay > 0 && !h.published(&in, &book, delay, newest) {
		return api.Result{}, tooLate
	}
	req.Out.Set("Cache-Control", "private, no-cache")
	return api.Result{Object: appendBook(&in, &book, depth, delay)}, nil
}

// published reports whether the stream has already sent the book to a user with this delay. newest
// is the newest publication time that the user may see, in Unix ns.
func (h *Routes) published(in *market.Instrument, book *journal.BookSnapshot, delay int, newest int64) bool {
	if !in.VirtualClock {
		return book.At <= newest
	}
	return book.Epoch != h.journal.Epoch() || book.Position <= h.hub.Due(delay)
}

// appendBook returns the O message for a past book. It has no publication time, because the gateway
// has not published this message.
func appendBook(in *market.Instrument, book *journal.BookSnapshot, depth, delay int) []byte {
	ident := wire.MakeIdent(in.ID)
	if delay > 0 {
		ident = ident.Delayed(int64(seconds(delay)))
	}
	bids, asks := book.Bids, book.Asks
	if depth > 0 {
		bids, asks = bids[:min(depth, len(bids))], asks[:min(depth, len(asks))]
	}
	sum, _ := wire.Checksum(nil, bids, asks, wire.ChecksumLevels(depth), in.PriceDecimals, in.SizeDecimals)
	header := wire.Header{Ident: ident, N: book.N, Time: book.Time, Latency: -1}
	return wire.AppendBookState(nil, &header, depth, bids, asks, sum)
}

// keptHint returns a hint that states from which time on history is kept.
func (h *Routes) keptHint() string {
	days := h.journal.Days()
	if len(days) == 0 {
		return "Nothing is kept yet"
	}
	return "Kept from " + string(wire.AppendTime(nil, days[0].Complete)) + " on"
}
