package api

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// MaxCursor bounds the length of a cursor in bytes. A cursor with the longest id of an account or
// an instrument fits.
const MaxCursor = 256

// Params holds the parameters of a query by name.
type Params url.Values

// Get returns the first value of a parameter, or "" without one.
func (p Params) Get(name string) string { return url.Values(p).Get(name) }

// Limit returns the parameter limit, which must be from 1 to most. Without it, Limit returns usual.
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

// BadCursor returns the failure for a cursor that does not come from the requested list.
func BadCursor() *wire.Failure {
	return wire.NewFailure(wire.BadField, "cursor", "is not a next_cursor of this list")
}

// Instrument parses the parameter instrument. The failure contains a hint if the symbol resembles
// that of a listed instrument.
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

// CheckListed returns a failure if an instrument is not in the catalogue. field is the name of the
// parameter, for the failure. Instruments are never removed from the catalogue, so that the result
// stays true.
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
