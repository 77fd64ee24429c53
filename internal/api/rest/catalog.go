package rest

import (
	"slices"
	"strings"

	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// instrumentCursor marks the cursors of the list of instruments, so that no other list accepts
// them.
const instrumentCursor = 'i'

// markets serves GET /market/markets.
func (h *Handler) markets(*request) (api.Result, error) {
	b := append([]byte(nil), `{"markets":[`...)
	list := h.cfg.Hub.Markets()
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.AppendMarket(b, &list[i])
	}
	return api.Result{Object: append(b, "]}"...)}, nil
}

// instruments serves GET /market/instruments?market=&term=&kind=&q=&limit=&cursor=.
func (h *Handler) instruments(q *request) (api.Result, error) {
	wanted, f := readFilter(q.Params)
	if f != nil {
		return api.Result{}, f
	}
	pg, f := readPage(q.Params, instrumentCursor)
	if f != nil {
		return api.Result{}, f
	}
	var after market.InstrumentID
	if pg.after != "" {
		var err error
		if after, err = market.ParseInstrumentID(pg.after); err != nil {
			return api.Result{}, api.BadCursor()
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
	delays := make([]int, len(rows))
	statuses := h.statusDelays(q)
	for i, row := range rows {
		var err error
		if delays[i], err = statuses.of(list[row].ID.Market); err != nil {
			return api.Result{}, err
		}
	}
	phases := h.cfg.Hub.Phases(listing, rows, delays)
	b := append(make([]byte, 0, 64+384*len(rows)), `{"instruments":[`...)
	for i, row := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.AppendInstrument(b, &list[row], phases[i])
	}
	b = append(b, ']')
	if more {
		b = appendNext(b, instrumentCursor, list[rows[len(rows)-1]].ID.String())
	}
	b = append(b, '}')
	q.Out.Set("Cache-Control", "private, no-cache")
	return q.Tagged(api.EntityTag(b), api.Result{Object: b}), nil
}

// statusDelays finds the delay at which a request's user may see the statuses of each market. It
// asks for each market once and remembers the answer.
type statusDelays struct {
	handler *Handler
	request *request
	known   map[string]int
}

func (h *Handler) statusDelays(q *request) *statusDelays {
	return &statusDelays{handler: h, request: q, known: make(map[string]int)}
}

// of returns the user's delay in seconds for the statuses of a market's instruments. It is negative
// if the user has no right to the market, or if the gateway does not serve the delay. of waits
// until the data at that delay is available.
func (s *statusDelays) of(name string) (int, error) {
	if delay, ok := s.known[name]; ok {
		return delay, nil
	}
	delay, ok := s.request.StatusDelay(name)
	if !ok || !s.handler.cfg.Hub.Serves(delay) {
		delay = -1
	}
	s.known[name] = delay
	if delay <= 0 {
		return delay, nil
	}
	return delay, s.request.AwaitDelay(s.handler.cfg.Hub, delay)
}

// filter selects instruments. An empty field selects all.
type filter struct {
	market, term, kind string
	text               string // in lower case; part of the symbol, name or ISIN
}

func readFilter(p api.Params) (w filter, f *wire.Failure) {
	for _, m := range []struct {
		name  string
		field *string
	}{{"market", &w.market}, {"term", &w.term}, {"kind", &w.kind}, {"q", &w.text}} {
		*m.field = p.Get(m.name)
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
