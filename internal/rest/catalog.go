package rest

import (
	"crypto/sha256"
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
	listing := h.cfg.Hub.Listing()
	list := listing.Instruments
	from, found := slices.BinarySearchFunc(list, after, func(in market.Instrument, id market.InstrumentID) int { return in.ID.Compare(id) })
	if found {
		from++
	}
	var rows []int
	more := false
	for i := from; i < len(list) && !more; i++ {
		switch {
		case !wanted.matches(&list[i]):
		case len(rows) == pg.limit:
			more = true
		default:
			rows = append(rows, i)
		}
	}
	phases := h.cfg.Hub.Phases(listing, rows)
	b := append(make([]byte, 0, 64+384*len(rows)), `{"instruments":[`...)
	for i, place := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.AppendInstrument(b, &list[place], phases[i])
	}
	b = append(b, ']')
	if more {
		b = appendNext(b, instrumentCursor, list[rows[len(rows)-1]].ID.String())
	}
	b = append(b, '}')
	sum := sha256.Sum256(b)
	q.out.Set("Cache-Control", "private, no-cache")
	return q.tagged(entityTag(sum[:]), result{object: b}), nil
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
		*m.field = p.get(m.name)
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
