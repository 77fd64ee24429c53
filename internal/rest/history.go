package rest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/internal/sched"
	"github.com/ruedahq/rueda/internal/stream"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Bounds of the rows of a page of history.
const (
	defaultRows = 1000
	maxRows     = 10_000
)

// pageTries is how often a page is begun, before it is told that its days are being removed.
const pageTries = 3

// Bounds of the requests that wait for a reader.
const (
	queuedReaders  = 64
	readerPatience = 5 * time.Second
)

// history is a question about one series: which rows of it, in which order, from which place on.
type history struct {
	path   string
	list   string // the name of the rows in an answer
	series journal.Series
	def    market.Instrument

	delay   int // of the user's data, in seconds
	start   int64
	end     int64
	after   uint64 // of the present epoch; with since
	since   bool
	epoch   string // alone; "": all
	named   bool   // the request named epoch
	desc    bool
	limit   int
	at      place
	onwards bool // at is of a cursor

	whole uint64 // least N of the present epoch from which on nothing is missing
	tag   string // entity tag of a page that is settled; "": it is not
}

// place is where a page begins: behind the row n of an epoch, in the page's direction; behind none
// of them where n is 0.
type place struct {
	epoch string
	n     uint64
}

// trades is GET /market/trades: trades, cancels and corrections.
func (h *Handler) trades(q *request) (result, error) {
	return h.history(q, &history{list: "trades", series: journal.Series{Channel: journal.Trades}})
}

// quotes is GET /market/quotes.
func (h *Handler) quotes(q *request) (result, error) {
	return h.history(q, &history{list: "quotes", series: journal.Series{Channel: journal.Quotes}})
}

// statuses is GET /market/statuses: the trading statuses that an instrument, or with *|MARKET|* a
// market as a whole, went through.
func (h *Handler) statuses(q *request) (result, error) {
	return h.history(q, &history{list: "statuses", series: journal.Series{Channel: journal.Statuses}})
}

// bars is GET /market/bars?interval=.
func (h *Handler) bars(q *request) (result, error) {
	x := &history{list: "bars", series: journal.Series{Channel: journal.Bars}}
	text := q.params.get("interval")
	ok := true
	if x.series.Interval = market.Minute; text != "" {
		x.series.Interval, ok = market.ParseInterval(text)
	}
	if !ok {
		return result{}, wire.NewFailure(wire.BadField, "interval", "must be 1s, 1m, 5m, 15m, 1h or 1d")
	}
	return h.history(q, x)
}

// history answers a question about one series with a page of rows.
func (h *Handler) history(q *request, x *history) (result, error) {
	if h.cfg.Journal == nil {
		return result{}, noJournal()
	}
	x.path = q.route.path
	if err := h.read(q, x); err != nil {
		return result{}, err
	}
	if h.settle(q, x); x.tag != "" {
		if r := q.tagged(x.tag, result{}); r.status != 0 {
			q.caching(x, true)
			return r, nil
		}
	}
	free, leave, err := h.readers.take(q.Context(), q.user.ID)
	if err != nil {
		return result{}, err
	}
	answered := false
	defer func() {
		if !answered {
			leave()
		}
	}()
	pg, err := h.page(q, x, free)
	if err != nil {
		return result{}, err
	}
	// The user's place is his until he has the page: pages that nobody takes are memory.
	r := h.finish(q, x, pg)
	r.done = func() {
		h.rooms.giveBack(pg.body)
		leave()
	}
	answered = true
	return r, nil
}

// page reads a page and gives back the lane. Where rows went while they were read, it reads anew what is kept then.
func (h *Handler) page(q *request, x *history, free func()) (*sheet, error) {
	defer free()
	room := h.rooms.take(4<<10 + bytesARow*x.limit)
	for range pageTries {
		pg := newSheet(q, x, room[:0])
		if err := h.fill(q, x, pg); !errors.Is(err, journal.ErrNotKept) {
			return pg, err
		}
		room = pg.body
	}
	return nil, &wire.Fault{Reason: wire.Unavailable, Msg: "Rows are removed faster than they are read", RetryAfter: 1}
}

func noJournal() *wire.Fault {
	return &wire.Fault{Reason: wire.NotFound, Msg: "No journal is kept here", Hint: "History needs a gateway with a data folder"}
}

// read reads the question of a request and refuses what its user may not ask.
func (h *Handler) read(q *request, x *history) error {
	text := q.params.get("instrument")
	id, f := h.historical(text, x.series.Channel == journal.Statuses)
	if f != nil {
		return f
	}
	x.series.Instrument = id
	x.def, _ = h.cfg.Hub.Instrument(id)
	channel := wire.Trades
	switch x.series.Channel {
	case journal.Quotes:
		channel = wire.Quotes
	case journal.Statuses:
		channel = wire.Status
	}
	var allowed bool
	if x.delay, allowed = right(&q.user, id.Market, channel, 0); channel == wire.Status && id.IsPattern() {
		x.delay = 0 // everybody's at once
	}
	if !allowed {
		return h.deny(q, id.Market, channel, "No right to the "+x.list+" of "+id.Market)
	}
	q.uses(id.Market, channel, x.delay)
	if f := q.params.span(x); f != nil {
		return f
	}
	if f := q.params.rows(x); f != nil {
		return f
	}
	return h.locate(q, x)
}

// historical reads the identifier of a question; whole says that it may be a market's.
func (h *Handler) historical(text string, whole bool) (id market.InstrumentID, f *wire.Failure) {
	if id, err := market.ParsePattern(text); err == nil && whole && id.Symbol == market.Any && id.Term == market.Any && id.Market != market.Any {
		if _, ok := h.cfg.Hub.MarketStatus(id.Market); ok {
			return id, nil
		}
		return id, wire.NewFailure(wire.UnknownInstrument, "instrument", "names a market without statuses")
	}
	id, err := market.ParseInstrumentID(text)
	if err != nil {
		return id, h.noIdentifier(text)
	}
	return id, h.checkListed("instrument", []market.InstrumentID{id})
}

// span reads start and end.
func (p params) span(x *history) (f *wire.Failure) {
	for _, m := range []struct {
		name string
		time *int64
	}{{"start", &x.start}, {"end", &x.end}} {
		text := p.get(m.name)
		if text == "" {
			continue
		}
		if *m.time, f = parseInstant(m.name, text); f != nil {
			return f
		}
	}
	if x.end != 0 && x.end <= x.start {
		return wire.NewFailure(wire.BadField, "end", "must be after start")
	}
	return nil
}

// parseInstant reads a time: RFC 3339, a date, which is its midnight in UTC, or Unix nanoseconds.
func parseInstant(name, text string) (int64, *wire.Failure) {
	if ns, err := strconv.ParseUint(text, 10, 63); err == nil && ns > 0 {
		return int64(ns), nil
	}
	if len(text) == len(dateFormat) {
		text += "T00:00:00Z"
	}
	ns, err := wire.ParseTime(text)
	if err != nil || ns == 0 {
		f := wire.NewFailure(wire.BadField, name, "must be a time like 2026-11-20T14:30:00Z, a date, or Unix nanoseconds")
		f.Hint = "In a query + is written %2B"
		return 0, f
	}
	return ns, nil
}

// rows reads limit and order.
func (p params) rows(x *history) *wire.Failure {
	var f *wire.Failure
	if x.limit, f = p.limit(defaultRows, maxRows); f != nil {
		return f
	}
	switch p.get("order") {
	case "", "asc":
	case "desc":
		x.desc = true
	default:
		return wire.NewFailure(wire.BadField, "order", "must be asc or desc")
	}
	return nil
}

// locate reads epoch, after_sequence and cursor.
func (h *Handler) locate(q *request, x *history) error {
	text := q.params.get("epoch")
	present := h.cfg.Journal.Epoch()
	if text != "" && text != present {
		return epochChanged(present)
	}
	x.epoch, x.named = text, text != ""
	if text = q.params.get("after_sequence"); text != "" {
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return wire.NewFailure(wire.BadField, "after_sequence", "must be a whole number")
		}
		x.after, x.since, x.epoch = n, true, present
	}
	if text = q.params.get("cursor"); text == "" {
		return nil
	}
	var ok bool
	if x.at, ok = parseCursor(text, x); !ok {
		return badCursor()
	}
	x.onwards = true
	if !slices.Contains(h.cfg.Journal.Epochs(), x.at.epoch) || x.epoch != "" && x.at.epoch != x.epoch {
		return epochChanged(present)
	}
	return nil
}

// epochChanged tells a client that its numbers mean nothing any more.
func epochChanged(present string) *wire.Fault {
	return &wire.Fault{Reason: wire.EpochChanged, Msg: "The epoch is " + present, Hint: "Ask again without epoch, after_sequence and cursor"}
}

// fill reads the rows of a page. A page has rows of one epoch: where its rows end and those of the
// next begin, so does a page.
func (h *Handler) fill(q *request, x *history, pg *sheet) error {
	if err := h.awaitCommit(q); err != nil {
		return err
	}
	limit := h.horizon(x)
	epochs := x.epochs(h.cfg.Journal.Epochs())
	found, err := h.cfg.Journal.Find(x.series, x.epoch)
	if err != nil {
		return fmt.Errorf("find the %s of %s: %w", x.list, x.series.Instrument, err)
	}
	defer found.Close()
	// A tag that was good before the wait for a reader is good for a page of what there is now if
	// nothing came or went in between.
	tag := x.tag
	if h.settle(q, x); x.tag != tag {
		x.tag = ""
	}
	if err := h.fillFrom(q.Context(), x, pg, epochs, found, &limit); err != nil {
		return err
	}
	if x.tag == "" {
		_ = inPieces(pg.body, pg.sum.Write) // never fails
	}
	return nil
}

// fillFrom is fill where the rows were found.
func (h *Handler) fillFrom(ctx context.Context, x *history, pg *sheet, epochs []string, found *journal.Found, limit *horizon) error {
	for _, epoch := range epochs {
		r, ok := x.rangeIn(epoch)
		if !ok {
			continue
		}
		err := found.Read(ctx, r, func(epoch string, row *journal.Row) bool {
			switch {
			case limit.hides(epoch, row):
				return x.desc // what is older may be told
			case pg.rows > 0 && pg.epoch != epoch:
				pg.next = &place{epoch: epoch}
				return false
			case pg.rows == x.limit:
				pg.next = &place{epoch, pg.last.n}
				return false
			}
			pg.add(epoch, row)
			if pg.rows%yieldRows == 0 {
				sched.Yield()
			}
			return true
		})
		switch {
		case ctx.Err() != nil:
			return errGone
		case err != nil:
			return fmt.Errorf("read the %s of %s: %w", x.list, x.series.Instrument, err)
		}
		if pg.next != nil {
			break
		}
	}
	return nil
}

// epochs is those of all that the page may have rows of, in its direction.
func (x *history) epochs(all []string) []string {
	if x.epoch != "" {
		return []string{x.epoch}
	}
	list := slices.Clone(all)
	if x.desc {
		slices.Reverse(list)
	}
	switch i := slices.Index(list, x.at.epoch); {
	case x.onwards && i >= 0:
		list = list[i:]
	case x.onwards && x.desc: // that epoch has gone, and so has what is older
		list = nil
	}
	return list
}

// rangeIn is what to read of an epoch; ok is false where there is nothing.
func (x *history) rangeIn(epoch string) (r journal.Range, ok bool) {
	r = journal.Range{Epoch: epoch, Start: x.start, End: x.end, Reverse: x.desc, AfterN: x.after}
	if !x.onwards || epoch != x.at.epoch || x.at.n == 0 {
		return r, true
	}
	if !x.desc {
		r.AfterN = max(r.AfterN, x.at.n)
		return r, true
	}
	r.ToN = x.at.n - 1
	return r, r.ToN > r.AfterN
}

// horizon is up to where a user may see the rows of a series.
type horizon struct {
	at      int64  // published by then; 0: any time
	epoch   string // of n
	n       uint64 // the newest N; with virtual
	virtual bool
}

// horizon is what a delay leaves of a series. Publication tells how old a row is, but for an
// instrument on a virtual clock: there, what the delayed stream has told is all there is.
func (h *Handler) horizon(x *history) (z horizon) {
	switch {
	case x.delay == 0:
	case x.def.VirtualClock:
		z.virtual, z.epoch = true, h.cfg.Journal.Epoch()
		z.n = h.cfg.Hub.Newest(stream.Item{Channel: channelOf(x.series), ID: x.series.Instrument, Tier: stream.Tier{Delay: x.delay}})
	default:
		z.at = time.Now().UnixNano() - int64(x.delay)*int64(time.Second)
	}
	return z
}

func (z *horizon) hides(epoch string, row *journal.Row) bool {
	return z.at != 0 && row.At > z.at || z.virtual && epoch == z.epoch && row.N > z.n
}

// channelOf is a series as a channel of the stream.
func channelOf(s journal.Series) wire.Channel {
	switch s.Channel {
	case journal.Quotes:
		return wire.Quotes
	case journal.Statuses:
		return wire.Status
	case journal.Bars:
		return wire.BarsOf(s.Interval)
	}
	return wire.Trades
}
