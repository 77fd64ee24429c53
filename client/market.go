package client

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire/stream"
)

// Account is an account of the user.
type Account struct {
	ID          string   `json:"account_id"`
	Number      string   `json:"number"`
	Name        string   `json:"name"`
	Type        string   `json:"type"`
	Status      string   `json:"status"`
	Currency    string   `json:"currency"`
	Currencies  []string `json:"currencies"`
	Roles       []string `json:"roles"`
	Permissions []string `json:"permissions"`
	Default     bool     `json:"is_default"`
	CreatedAt   string   `json:"created_at"` // RFC 3339; "": unknown
}

// Accounts iterates over the accounts of the user. It ends at the first error.
func (c *Client) Accounts(ctx context.Context) iter.Seq2[Account, error] {
	l := list{path: "/broker/accounts", name: "accounts", query: url.Values{"limit": {"1000"}}}
	return pages(ctx, c, l, func(row json.RawMessage, _ string) (a Account, err error) {
		return a, unmarshal(row, &a)
	})
}

// Account returns an account of the user.
func (c *Client) Account(ctx context.Context, id string) (a Account, err error) {
	return a, c.Get(ctx, "/broker/accounts/"+url.PathEscape(id), nil, &a)
}

// Instrument is an instrument of the catalogue with its trading status.
type Instrument struct {
	market.Instrument
	Status   market.Phase
	Channels []string // such as trades
	Raw      json.RawMessage
}

// Filter selects instruments. Empty fields select all.
type Filter struct {
	Market, Term, Kind string // exactly
	Text               string // part of the symbol, name or ISIN
}

// Instruments iterates over the catalogue. It ends at the first error.
func (c *Client) Instruments(ctx context.Context, f Filter) iter.Seq2[Instrument, error] {
	query := url.Values{"limit": {"1000"}}
	for name, value := range map[string]string{"market": f.Market, "term": f.Term, "kind": f.Kind, "q": f.Text} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return pages(ctx, c, list{path: "/market/instruments", name: "instruments", query: query}, decodeInstrument)
}

func decodeInstrument(row json.RawMessage, _ string) (Instrument, error) {
	var v struct {
		Instrument     string
		SettlementDays int `json:"settlement_days"`
		Name           string
		Kind           string
		ISIN           string
		Currency       string
		Multiplier     json.Number
		PriceDecimals  int `json:"price_decimals"`
		SizeDecimals   int `json:"size_decimals"`
		Tick           [][2]json.Number
		Lot            json.Number
		MinSize        json.Number `json:"min_size"`
		Status         string
		Channels       []string
	}
	err := unmarshal(row, &v)
	in := Instrument{Channels: v.Channels, Raw: row}
	if err == nil {
		in.ID, err = market.ParseInstrumentID(v.Instrument)
	}
	in.Name, in.Kind, in.ISIN, in.Currency, in.SettlementDays = v.Name, v.Kind, v.ISIN, v.Currency, v.SettlementDays
	in.PriceDecimals, in.SizeDecimals = v.PriceDecimals, v.SizeDecimals
	in.Status, _ = market.ParsePhase(v.Status)
	size := func(n json.Number, to *market.Size) {
		if n != "" && err == nil {
			*to, err = market.ParseSize(string(n))
		}
	}
	size(v.Multiplier, &in.Multiplier)
	size(v.Lot, &in.Lot)
	size(v.MinSize, &in.MinSize)
	for _, row := range v.Tick {
		var t market.Tick
		if err == nil {
			t.From, err = market.ParsePrice(string(row[0]))
		}
		if err == nil {
			t.Step, err = market.ParsePrice(string(row[1]))
		}
		in.Ticks = append(in.Ticks, t)
	}
	return in, err
}

// Snapshot has the newest messages of instruments.
type Snapshot struct {
	Epoch       string
	Position    string
	Instruments []InstrumentSnapshot
}

// InstrumentSnapshot has the newest messages of an instrument. Fields are nil if there is none or
// the user has no right to it.
type InstrumentSnapshot struct {
	Instrument market.InstrumentID
	Trade      *Trade
	Quote      *Quote
	Summary    *Summary
	Status     *Status
}

// Snapshot returns the newest trade, quote, summary and status of each instrument.
func (c *Client) Snapshot(ctx context.Context, instruments ...string) (Snapshot, error) {
	var v struct {
		Epoch, Position string
		Instruments     []map[string]json.RawMessage
	}
	query := url.Values{"instruments": {strings.Join(instruments, ",")}}
	if err := c.Get(ctx, "/market/snapshot", query, &v); err != nil {
		return Snapshot{}, err
	}
	s := Snapshot{Epoch: v.Epoch, Position: v.Position}
	var d stream.Decoder
	for _, members := range v.Instruments {
		var in InstrumentSnapshot
		for _, raw := range members {
			if len(raw) == 0 || raw[0] != '{' {
				continue
			}
			var m stream.Message
			if err := d.Decode(raw, &m); err != nil {
				return Snapshot{}, err
			}
			in.Instrument = m.ID
			switch ev := newEvent(&m, raw, time.Now()).(type) {
			case *Trade:
				in.Trade = ev
			case *Quote:
				in.Quote = ev
			case *Summary:
				in.Summary = ev
			case *Status:
				in.Status = ev
			}
		}
		s.Instruments = append(s.Instruments, in)
	}
	return s, nil
}

// OrderBook returns the book of an instrument now or, if at is not zero, at that time. depth is 1,
// 5, 10, 25, or AllLevels.
func (c *Client) OrderBook(ctx context.Context, instrument string, depth int, at time.Time) (BookUpdate, error) {
	query := url.Values{"instrument": {instrument}, "depth": {strconv.Itoa(max(depth, 0))}}
	if !at.IsZero() {
		query.Set("at", at.UTC().Format(time.RFC3339Nano))
	}
	var raw json.RawMessage
	if err := c.Get(ctx, "/market/book", query, &raw); err != nil {
		return BookUpdate{}, err
	}
	return decodeRow[BookUpdate](raw, "")
}

// list is a list that comes in pages.
type list struct {
	path, name string
	query      url.Values
	limit      int                         // number of rows; 0: all
	lost       func(json.RawMessage) error // called with the member lost of each page; nil: it has none
}

// pages iterates over the rows of a list. decode gets a row and the epoch of its page, if it has
// one.
func pages[R any](ctx context.Context, c *Client, l list, decode func(json.RawMessage, string) (R, error)) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		var none R
		cursor := ""
		for n := 0; ; {
			q := maps.Clone(l.query)
			if cursor != "" {
				q.Set("cursor", cursor)
			}
			var page map[string]json.RawMessage
			var rows []json.RawMessage
			var epoch string
			err := c.Get(ctx, l.path, q, &page)
			cursor = ""
			for member, to := range map[string]any{l.name: &rows, "epoch": &epoch, "next_cursor": &cursor} {
				if err == nil && page[member] != nil {
					err = unmarshal(page[member], to)
				}
			}
			if err == nil && l.lost != nil && page["lost"] != nil {
				err = l.lost(page["lost"])
			}
			if err != nil {
				yield(none, err)
				return
			}
			for _, raw := range rows {
				row, err := decode(raw, epoch)
				if !yield(row, err) || err != nil {
					return
				}
				if n++; n == l.limit {
					return
				}
			}
			if cursor == "" {
				return
			}
		}
	}
}
