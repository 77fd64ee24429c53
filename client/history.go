package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"strconv"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// Range selects rows of history. Its zero value selects all that are kept.
type Range struct {
	Start, End time.Time // event times, Start inclusive and End exclusive; zero: no bound
	// StartDate and EndDate stand for the start of a trading day of the market, in place of Start
	// and End: the rows of a day are those from its date to the next one. 0: Start and End count.
	StartDate, EndDate market.Date
	After              uint64 // rows above this N of the current epoch; 0: no bound
	FromFirst          bool   // all rows of the current epoch, as if After could be 0 as a bound
	Epoch              string // rows of this epoch, or an error epoch_changed; "": any
	Newest             bool   // the newest rows first
	Limit              int    // number of rows; 0: all

	// Lost gets the rows of the range that the gateway does not have. Those before Start or After
	// that are no longer kept are there before the first row, and others before the rows of their
	// page. A call empties it first. If it is nil, the logger gets a warning, once a call.
	Lost *[]Lost
	// RequireComplete makes missing rows an error: the call ends with an *IncompleteError before the
	// first row of the page that lacks them.
	RequireComplete bool
}

// IncompleteError ends a call with Range.RequireComplete if the gateway does not have all rows.
type IncompleteError struct {
	Lost []Lost // as far as they are known
}

// Error implements error.
func (e *IncompleteError) Error() string {
	text := "client: history is incomplete"
	if len(e.Lost) > 0 {
		text += ": " + e.Lost[0].String()
	}
	if n := len(e.Lost) - 1; n > 0 {
		text += fmt.Sprintf(", and %d more", n)
	}
	return text
}

func (r *Range) query(instrument string) url.Values {
	q := url.Values{"instrument": {instrument}, "limit": {"10000"}}
	if r.Limit > 0 && r.Limit < 10_000 {
		q.Set("limit", strconv.Itoa(r.Limit))
	}
	if !r.Start.IsZero() {
		q.Set("start", strconv.FormatInt(r.Start.UnixNano(), 10))
	}
	if !r.End.IsZero() {
		q.Set("end", strconv.FormatInt(r.End.UnixNano(), 10))
	}
	if r.StartDate != 0 {
		q.Set("start", r.StartDate.String())
	}
	if r.EndDate != 0 {
		q.Set("end", r.EndDate.String())
	}
	if r.After > 0 || r.FromFirst {
		q.Set("after_sequence", strconv.FormatUint(r.After, 10))
	}
	if r.Epoch != "" {
		q.Set("epoch", r.Epoch)
	}
	if r.Newest {
		q.Set("order", "desc")
	}
	return q
}

// Trades iterates over past trades, cancels and corrections in order of N. It ends at the first
// error. History needs the scope marketdata:history, and a gateway with a journal.
func (c *Client) Trades(ctx context.Context, instrument string, r Range) iter.Seq2[Trade, error] {
	return past[Trade](ctx, c, wire.Trades, instrument, r)
}

// Quotes iterates over past quotes.
func (c *Client) Quotes(ctx context.Context, instrument string, r Range) iter.Seq2[Quote, error] {
	return past[Quote](ctx, c, wire.Quotes, instrument, r)
}

// Statuses iterates over past statuses. Those of a market as a whole are of *|MARKET|*.
func (c *Client) Statuses(ctx context.Context, instrument string, r Range) iter.Seq2[Status, error] {
	return past[Status](ctx, c, wire.Status, instrument, r)
}

// Bars iterates over past bars, with their revisions.
func (c *Client) Bars(ctx context.Context, instrument string, interval market.Interval, r Range) iter.Seq2[Bar, error] {
	return past[Bar](ctx, c, wire.BarsOf(interval), instrument, r)
}

// past iterates over the rows of a channel, and reports those that are missing as the range says.
func past[E any](ctx context.Context, c *Client, channel wire.Channel, instrument string, r Range) iter.Seq2[E, error] {
	l := historyOf(channel, instrument, r)
	return func(yield func(E, error) bool) {
		missing := missing{client: c, r: r, series: stream.Series{Channel: channel}}
		missing.series.Instrument, _ = market.ParsePattern(instrument) // the gateway refuses another
		if r.Lost != nil {
			*r.Lost = nil
		}
		l.lost = missing.page
		pages(ctx, c, l, decodeRow[E])(yield)
	}
}

// historyOf returns the list of the rows of a channel.
func historyOf(channel wire.Channel, instrument string, r Range) list {
	l := list{query: r.query(instrument), limit: r.Limit}
	switch interval, bars := channel.Interval(); {
	case bars:
		l.name = "bars"
		l.query.Set("interval", interval.String())
	case channel == wire.Quotes:
		l.name = "quotes"
	case channel == wire.Status:
		l.name = "statuses"
	default:
		l.name = "trades"
	}
	l.path = "/market/" + l.name
	return l
}

// missing reports the rows of a call that the gateway does not have.
type missing struct {
	client *Client
	r      Range
	series stream.Series
	warned bool
}

// page reports the missing rows of a page. The error ends the call.
func (m *missing) page(raw json.RawMessage) error {
	var ranges []struct {
		From, To   uint64
		Start, End time.Time
		Reason     string
	}
	if err := unmarshal(raw, &ranges); err != nil || len(ranges) == 0 {
		return err
	}
	var list []Lost
	for _, x := range ranges {
		list = append(list, Lost{Series: m.series, From: x.From, To: x.To, Start: x.Start, End: x.End, Reason: printable(x.Reason)})
	}
	switch {
	case m.r.Lost != nil:
		*m.r.Lost = append(*m.r.Lost, list...)
	case !m.r.RequireComplete && !m.warned:
		m.client.log.Warn("rows of history are missing", "instrument", m.series.Instrument, "reason", list[0].String())
	}
	if m.warned = true; m.r.RequireComplete {
		return &IncompleteError{Lost: list}
	}
	return nil
}

// decodeRow decodes a row of history.
func decodeRow[E any](raw json.RawMessage, _ string) (e E, err error) {
	var d stream.Decoder
	var m stream.Message
	if err = d.Decode(raw, &m); err != nil {
		return e, err
	}
	ev, ok := any(newEvent(&m, raw, time.Now())).(*E)
	if !ok {
		return e, stream.ErrMessage
	}
	return *ev, nil
}
