package api

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// MaxCursor bounds a cursor, in bytes. The longest key, the id of an account or an instrument,
// fits.
const MaxCursor = 256

// Params are the parameters of a query.
type Params url.Values

// Get returns a parameter, or "" if it is not given.
func (p Params) Get(name string) string { return url.Values(p).Get(name) }

// Limit returns the number of rows that a request wants, from 1 to most.
func (p Params) Limit(usual, most int) (int, *wire.Failure) {
	text := p.Get("limit")
	if text == "" {
		return usual, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || n < 1 || n > uint64(most) {
		return 0, wire.NewFailure(wire.BadField, "limit", "must be a whole number from 1 to "+strconv.Itoa(most))
	}
	return int(n), nil
}

// BadCursor returns the failure of a cursor that is not one of this list.
func BadCursor() *wire.Failure {
	return wire.NewFailure(wire.BadField, "cursor", "is not a next_cursor of this list")
}

// Instrument parses the parameter instrument. A failure suggests the instrument that may have been
// meant.
func (p Params) Instrument(h *hub.Hub) (market.InstrumentID, *wire.Failure) {
	text := p.Get("instrument")
	id, err := market.ParseInstrumentID(text)
	switch {
	case err == nil:
		return id, nil
	case text == "":
		return id, wire.NewFailure(wire.BadInstrument, "instrument", "is missing")
	}
	f := wire.NewFailure(wire.BadInstrument, "instrument", "must be of the form SYMBOL|MARKET|TERM")
	symbol, _, _ := strings.Cut(text, "|")
	if near, ok := h.Suggest(market.InstrumentID{Symbol: symbol}); ok {
		f.Hint = "Did you mean " + near.String() + "?"
	}
	return id, f
}

// CheckListed refuses instruments that are not in the catalogue. Instruments are never removed from
// it, so they are still listed afterwards.
func CheckListed(h *hub.Hub, field string, ids []market.InstrumentID) *wire.Failure {
	unknown := &wire.Failure{Fault: wire.Fault{Reason: wire.UnknownInstrument}}
	for _, id := range ids {
		if _, ok := h.Instrument(id); ok {
			continue
		}
		unknown.Details = append(unknown.Details, wire.Detail{Field: field, Msg: id.String() + " is not listed"})
		if near, ok := h.Suggest(id); ok && unknown.Hint == "" {
			unknown.Hint = "Did you mean " + near.String() + "?"
		}
	}
	if unknown.Details == nil {
		return nil
	}
	return unknown
}
