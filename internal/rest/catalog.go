package rest

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// instrumentCursor marks the cursors of the list of instruments.
const instrumentCursor = 'i'

// markets is GET /market/markets.
func (h *Handler) markets(*request) (result, error) {
	b := append([]byte(nil), `{"markets":[`...)
	list := h.cfg.Hub.Markets()
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.AppendMarket(b, &list[i])
	}
	return result{object: append(b, "]}"...)}, nil
}

// instruments is GET /market/instruments?market=&term=&kind=&q=&limit=&cursor=.
func (h *Handler) instruments(q *request) (result, error) {
	wanted, f := q.params.filter()
	if f != nil {
		return result{}, f
	}
	pg, f := q.params.page(instrumentCursor)
	if f != nil {
		return result{}, f
	}
	var after market.InstrumentID
	if pg.after != "" {
		var err error
		if after, err = market.ParseInstrumentID(pg.after); err != nil {
			return result{}, badCursor()
		}
	}
	list, _ := h.cfg.Hub.Instruments()
	list = slices.DeleteFunc(list, func(in market.Instrument) bool {
		return compareIDs(in.ID, after) <= 0 || !wanted.matches(&in)
	})
	slices.SortFunc(list, func(a, b market.Instrument) int { return compareIDs(a.ID, b.ID) })
	rows := list[:min(len(list), pg.limit)]

	b := append(make([]byte, 0, 64+384*len(rows)), `{"instruments":[`...)
	for i := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.AppendInstrument(b, &rows[i], rows[i].Phase)
	}
	b = append(b, ']')
	if len(rows) < len(list) {
		b = appendNext(b, instrumentCursor, rows[len(rows)-1].ID.String())
	}
	b = append(b, '}')
	sum := sha256.Sum256(b)
	q.out.Set("Cache-Control", "private, no-cache")
	return q.tagged(`"`+base64.RawURLEncoding.EncodeToString(sum[:12])+`"`, result{object: b}), nil
}

// compareIDs is the order of the list, in which a cursor is a place.
func compareIDs(a, b market.InstrumentID) int {
	return cmp.Or(strings.Compare(a.Symbol, b.Symbol), strings.Compare(a.Market, b.Market), strings.Compare(a.Term, b.Term))
}

// filter is which instruments a request wants; an empty field is every value.
type filter struct {
	market, term, kind string
	text               string // lower case, somewhere in symbol, name or ISIN
}

func (p params) filter() (w filter, f *wire.Failure) {
	for _, m := range []struct {
		name  string
		field *string
	}{{"market", &w.market}, {"term", &w.term}, {"kind", &w.kind}, {"q", &w.text}} {
		if *m.field, f = p.get(m.name); f != nil {
			return filter{}, f
		}
		if len(*m.field) > 64 {
			return filter{}, wire.NewFailure(wire.BadField, m.name, "is longer than 64 bytes")
		}
	}
	w.text = strings.ToLower(w.text)
	return w, nil
}

func (w *filter) matches(in *market.Instrument) bool {
	return (w.market == "" || w.market == in.ID.Market) &&
		(w.term == "" || w.term == in.ID.Term) &&
		(w.kind == "" || w.kind == in.Kind) &&
		(w.text == "" || w.contained(in.ID.Symbol) || w.contained(in.Name) || w.contained(in.ISIN))
}

func (w *filter) contained(s string) bool { return strings.Contains(strings.ToLower(s), w.text) }
