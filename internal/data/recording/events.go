package recording

import (
	"bytes"
	"cmp"
	"errors"
	"time"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire/stream"
)

// Events converts the text of a recording to market events: trades, cancellations, corrections,
// quotes, books, statuses and the reference figures of summaries. It is a decoder as described in
// package internal/data/replay/decode. It skips bars and the other figures of summaries, which are
// computed again from the trades.
//
// A book whose updates were interrupted or do not connect is stale until its next snapshot, as it
// was for the recorder.
type Events struct {
	Filter decode.Filter // selected instruments; empty: all

	meta       *Meta
	zones      map[string]*time.Location // time zones of markets that do not use UTC
	line       int
	decoder    stream.Decoder
	message    stream.Message
	books      map[market.InstrumentID]*played // nil: not selected
	order      []*played
	epoch      string
	catchingUp bool
	resumed    map[string]bool // subscriptions that have not caught up, by id
}

// played is the state of an instrument.
type played struct {
	handle market.Handle
	id     market.InstrumentID
	trade  uint64 // newest N
	status uint64
	quote  uint64
	book   uint64
	whole  bool
	phase  market.Phase
	time   int64 // newest event time

	zone           *time.Location
	reference      market.Event // the newest reference figures, without their time
	referenceUntil int64        // end of the day for which they were published
}

// Decode decodes complete lines from the beginning of data; see package decode.
func (e *Events) Decode(data []byte, b *decode.Batch) (n int, err error) {
	for !b.Full() {
		end := bytes.IndexByte(data[n:], '\n')
		if end < 0 {
			if len(data)-n > maxLine {
				return n, errLong
			}
			return n, nil
		}
		if err := e.decodeLine(trimEnd(data[n:n+end]), b); err != nil {
			return n, err
		}
		b.EndRecord()
		n += end + 1
		b.Cut()
	}
	return n, nil
}

// End handles the rest after the last complete line, which a killed recorder leaves.
func (e *Events) End(rest []byte, b *decode.Batch) error {
	if e.meta == nil {
		return errors.New("it ends within its first line and has no messages")
	}
	if len(rest) > 0 {
		b.Stats.Count(decode.Incomplete)
		b.Note("torn_line", "the recording ends within a line, %d bytes after line %d", len(rest), e.line)
	}
	return nil
}

// AllowsTruncation marks that the complete part of a truncated file can be played.
func (e *Events) AllowsTruncation() {}

// decodeLine plays a line.
func (e *Events) decodeLine(line []byte, b *decode.Batch) error {
	e.line++
	if e.meta == nil {
		b.Skip(decode.OtherType)
		return e.begin(line, b)
	}
	at, body, ok := splitLine(line)
	if !ok {
		return errNoTime
	}
	if isNote(body) {
		b.Skip(decode.OtherType)
		return e.note(at, body, b)
	}
	e.decoder.Lenient = true
	if err := e.decoder.Decode(body, &e.message); err != nil {
		return err
	}
	m := &e.message
	if !m.Kind.IsData() {
		e.control(m, b)
		b.Skip(decode.OtherType)
		return nil
	}
	p, ok := e.books[m.ID]
	if !ok {
		p = e.list(market.Instrument{ID: m.ID, PriceDecimals: 8, SizeDecimals: 8}, b)
	}
	if p == nil {
		b.Skip(decode.Filtered)
		return nil
	}
	e.data(at, p, m, b)
	return nil
}

// begin decodes the first line.
func (e *Events) begin(line []byte, b *decode.Batch) (err error) {
	if e.meta, err = parseMeta(line); err != nil {
		return err
	}
	e.epoch = e.meta.Epoch
	e.books, e.zones = map[market.InstrumentID]*played{}, map[string]*time.Location{}
	markets, err := e.meta.markets()
	if err != nil {
		b.Note("bad_market", "%v", err)
	}
	for _, m := range markets {
		// UTC is used for unknown time zones
		if zone, err := time.LoadLocation(m.Timezone); err == nil {
			e.zones[m.ID] = zone
		}
	}
	e.define(e.meta.Instruments, b)
	return nil
}

// Markets returns the definitions of the markets in the recording. Their status comes from the
// recording. Markets without recorded statuses have no hours.
func (e *Events) Markets() []market.Market {
	if e.meta == nil {
		return nil
	}
	list, _ := e.meta.markets() // begin has reported the error
	for i := range list {
		list[i].StatusFromFeed = true
		if !e.has("status") {
			list[i].Schedule = market.Schedule{}
		}
	}
	return list
}

// CatchingUp reports whether old messages are still expected: the recorder had lost its connection,
// and the messages it missed follow the current states, until CaughtUp.
func (e *Events) CatchingUp() bool { return e.catchingUp }

func (e *Events) define(rows []Row, b *decode.Batch) {
	list, err := Definitions(rows)
	if err != nil {
		b.Note("bad_definition", "%v", err)
	}
	for i := range list {
		if _, ok := e.books[list[i].ID]; !ok {
			e.list(list[i], b)
		}
	}
}

// list lists an instrument with the properties that the recording supports.
func (e *Events) list(in market.Instrument, b *decode.Batch) *played {
	if !in.ID.IsPattern() && !e.Filter.Matches(in.ID) {
		e.books[in.ID] = nil
		return nil
	}
	in.VirtualClock = true
	in.QuotesFromFeed = e.has("quotes")
	in.NoBook = in.NoBook || !e.has("order_book")
	in.StartsEmpty = false
	switch {
	case !e.has("status"):
		in.Phase = market.NoPhase
	case in.Phase == market.NoPhase:
		in.Phase = market.Unknown
	}
	p := &played{handle: b.List(in), id: in.ID, phase: in.Phase, zone: cmp.Or(e.zones[in.ID.Market], time.UTC)}
	e.books[in.ID] = p
	e.order = append(e.order, p)
	return p
}

func (e *Events) has(channel string) bool {
	for _, c := range e.meta.Channels {
		if c == channel {
			return true
		}
	}
	return len(e.meta.Channels) == 0
}

// note handles a note of the recorder.
func (e *Events) note(at int64, body []byte, b *decode.Batch) error {
	var n Note
	if err := n.Parse(body); err != nil {
		return err
	}
	switch n.Kind {
	case Disconnected:
		e.interrupted(at, b)
	case Connected:
		e.interrupted(at, b)
		e.catchingUp, e.resumed = true, map[string]bool{}
		e.define(n.Instruments, b)
	}
	return nil
}

// control handles a message that is not market data.
func (e *Events) control(m *stream.Message, b *decode.Batch) {
	switch {
	case m.Kind == stream.Unknown:
		b.Skip(decode.Unsupported)
	case m.Kind == stream.Warning && m.Control.Reason == "slow_client":
		conflated(b)
	case m.Kind == stream.CaughtUp:
		delete(e.resumed, m.Control.ID)
		e.catchingUp = len(e.resumed) > 0
	case m.Kind == stream.Subscription:
		if e.catchingUp && Resumes(m.Control) {
			e.resumed[m.Control.ID] = true
		}
		if epoch := m.Control.Epoch; epoch != "" && epoch != e.epoch {
			e.epoch = epoch
			for _, p := range e.order {
				p.trade, p.status, p.quote = 0, 0, 0
			}
		}
	}
}

func (e *Events) interrupted(at int64, b *decode.Batch) {
	for _, p := range e.order {
		e.markStale(at, p, b, "recording_interrupted")
	}
}

func (e *Events) markStale(at int64, p *played, b *decode.Batch, reason string) {
	if p.whole {
		p.whole = false
		b.Gap(p.handle, p.time, at, reason) // the recorder's clock may differ from the market's
	}
}

// data plays market data.
func (e *Events) data(at int64, p *played, m *stream.Message, b *decode.Batch) {
	p.time = max(p.time, m.Time)
	switch m.Kind {
	case stream.Trade:
		if m.N <= p.trade {
			b.Skip(decode.Repeated)
			return
		}
		p.trade = m.N
		b.Stats.Trades++
		t := &m.Trade
		x := e.event(t.Kind, at, p, m, b)
		x.Price, x.Size, x.OldPrice, x.OldSize = t.Price, t.Size, t.OldPrice, t.OldSize
		x.Side, x.TradeID, x.TradeDetails = t.Side, t.ID, t.TradeDetails
	case stream.Quote:
		b.Stats.Quotes++
		if !m.Snapshot && p.quote > 0 && m.N > p.quote+1 {
			conflated(b) // the missing quotes were replaced by newer ones
		}
		p.quote = m.N
		x := e.event(market.KindQuote, at, p, m, b)
		x.Bids, x.Asks = copyLevels(b, m.Bids), copyLevels(b, m.Asks)
	case stream.Book:
		e.book(at, p, m, b)
	case stream.Status:
		e.status(at, p, m, b)
	case stream.Summary:
		e.reference(at, p, m, b)
	default:
		b.Skip(decode.OtherType)
	}
}

// conflated notes that the server did not send all changes of quotes and books.
func conflated(b *decode.Batch) {
	b.Note("conflated", "the recording is conflated: quotes and book changes are missing because the recorder was too slow, or asked for it")
}

// reference plays the reference figures of a summary if they are new, and once per trading day,
// because the previous close belongs to one day.
func (e *Events) reference(at int64, p *played, m *stream.Message, b *decode.Batch) {
	now := market.Event{PreviousClose: m.Figures.PreviousClose, Settlement: m.Figures.Settlement, OpenInterest: m.Figures.OpenInterest}
	same := now.PreviousClose == p.reference.PreviousClose && now.Settlement == p.reference.Settlement && now.OpenInterest == p.reference.OpenInterest
	if same && m.Time < p.referenceUntil || now.PreviousClose == 0 && now.Settlement == 0 && now.OpenInterest == 0 {
		b.Skip(decode.NoEffect)
		return
	}
	_, end := market.TradingDay(time.Unix(0, m.Time), p.zone)
	p.reference, p.referenceUntil = now, max(p.referenceUntil, end.UnixNano())
	x := e.event(market.KindReference, at, p, m, b)
	x.PreviousClose, x.Settlement, x.OpenInterest = now.PreviousClose, now.Settlement, now.OpenInterest
}

func (e *Events) event(kind market.Kind, at int64, p *played, m *stream.Message, b *decode.Batch) *market.Event {
	x := b.Add(kind, p.handle)
	x.Time, x.Receive, x.Sequence = m.Time, at, m.N
	return x
}

// book plays a message of the book.
func (e *Events) book(at int64, p *played, m *stream.Message, b *decode.Batch) {
	b.Stats.Depth++
	b.Stats.Levels += len(m.Bids) + len(m.Asks)
	kind := market.KindUpdate
	switch {
	case m.Snapshot:
		kind, p.whole = market.KindSnapshot, true
		b.Stats.Snapshots++
	case !p.whole:
		b.Skip(decode.UnknownBook)
		return
	case m.Previous != p.book:
		b.Skip(decode.UnknownBook)
		e.markStale(at, p, b, "sequence_gap")
		return
	case len(m.Bids)+len(m.Asks) == 0:
		p.book = m.N
		return
	}
	if !m.Snapshot && e.meta.Depth == 0 && m.N > m.Previous+1 {
		conflated(b)
	}
	p.book = m.N
	x := e.event(kind, at, p, m, b)
	x.Bids, x.Asks = copyLevels(b, m.Bids), copyLevels(b, m.Asks)
}

// status plays a status. A feed that was down is played as a gap, because the feed that plays it is
// up.
func (e *Events) status(at int64, p *played, m *stream.Message, b *decode.Batch) {
	switch {
	case m.Phase == market.FeedDown:
		for _, x := range e.order {
			if x == p || p.id.IsPattern() && p.id.Matches(x.id) {
				e.markStale(at, x, b, "feed_down")
			}
		}
		return
	case m.Phase == market.Gap && m.N > p.status:
		p.status = m.N
		b.Stats.Statuses++
		for _, x := range e.order {
			if x == p || p.id.IsPattern() && p.id.Matches(x.id) {
				x.whole = false
			}
		}
		b.Gap(p.handle, m.Time, at, m.Reason)
		return
	case m.Phase.OfFeed(), m.N <= p.status && m.Phase == p.phase:
		b.Skip(decode.Repeated)
		return
	case m.Snapshot && p.status == 0 && m.Phase == p.phase && m.Reason == "" && m.Until == 0:
		p.status = m.N // the status at listing, with its time
		if in := &b.Listed[p.handle]; in.Listed == 0 {
			in.Listed = m.Time
		}
		b.Skip(decode.Repeated)
		return
	}
	p.status, p.phase = m.N, m.Phase
	b.Stats.Statuses++
	x := e.event(market.KindStatus, at, p, m, b)
	x.Phase, x.Reason, x.Until = m.Phase, m.Reason, m.Until
}

// copyLevels stores levels in the batch.
func copyLevels(b *decode.Batch, levels []market.Level) []market.Level {
	for _, l := range levels {
		b.AppendLevel(l)
	}
	return b.LastLevels(len(levels), 0)
}
