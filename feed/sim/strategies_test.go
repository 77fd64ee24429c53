package sim

import (
	"os"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/feed/sim/facts"
	"github.com/ruedahq/rueda/market"
)

// strategies trades one unit of an instrument at a time, in three ways. Momentum and reversal hold
// one unit for or against the return of the newest minute; they buy at the best ask and sell at the
// best bid. The market maker is the other side of every marketable order, and values what it traded
// at the mid price a minute later.
type strategies struct {
	in          market.Instrument
	book        market.Book
	phase       market.Phase
	next        int64   // end of the minute
	mid         float64 // at its start, 0: unknown
	position    [2]float64
	result      [2]float64 // of momentum and reversal
	open        []quoted
	gross, kept float64 // half-spreads of the market maker
	orderAt     int64   // time and side of the newest marketable order
	orderSide   market.Side
}

// quoted is a trade of the market maker.
type quoted struct {
	at                 int64
	price, sign, gross float64
}

// allStrategies is a feed.Sink that trades all instruments.
type allStrategies []*strategies

func (d *allStrategies) Define(in market.Instrument) (market.Handle, error) {
	*d = append(*d, &strategies{in: in, phase: in.Phase})
	return market.Handle(len(*d) - 1), nil
}

func (d *allStrategies) Publish(events []market.Event) error {
	for i := range events {
		(*d)[events[i].Handle].apply(&events[i])
	}
	return nil
}

// apply trades before it sees an event.
func (s *strategies) apply(e *market.Event) {
	bid, hasBid := s.book.Best(market.Buy)
	ask, hasAsk := s.book.Best(market.Sell)
	good := hasBid && hasAsk && bid.Price < ask.Price
	b, a := float64(bid.Price), float64(ask.Price)
	if good && s.phase == market.Open {
		s.trade(e.Time, b, a)
		if e.Kind == market.KindTrade {
			s.make(e, (a+b)/2)
		}
	}
	switch e.Kind {
	case market.KindStatus:
		if s.phase == market.Open && e.Phase == market.Auction && e.Reason == reasonClosing && good {
			s.hold(0, 0, b, a)
			s.hold(1, 0, b, a)
		}
		if e.Phase != market.Open {
			s.open, s.mid = nil, 0
		}
		s.phase = e.Phase
	case market.KindSnapshot:
		s.book.Reset()
		fallthrough
	case market.KindUpdate:
		for _, l := range e.Bids {
			s.book.Set(market.Buy, l)
		}
		for _, l := range e.Asks {
			s.book.Set(market.Sell, l)
		}
	}
}

// trade values the trades of a minute ago, and changes positions at the end of a minute.
func (s *strategies) trade(now int64, bid, ask float64) {
	mid := (bid + ask) / 2
	for len(s.open) > 0 && s.open[0].at+minute <= now {
		q := s.open[0]
		s.open = s.open[1:]
		s.gross += q.gross
		s.kept += q.sign * (q.price - mid) / mid
	}
	if now < s.next {
		return
	}
	s.next = now - now%minute + minute
	if move := mid - s.mid; s.mid != 0 && move != 0 {
		want := move / max(move, -move)
		s.hold(0, want, bid, ask)
		s.hold(1, -want, bid, ask)
	}
	s.mid = mid
}

// hold changes a position across the spread.
func (s *strategies) hold(i int, want, bid, ask float64) {
	price := ask
	if want < s.position[i] {
		price = bid
	}
	s.result[i] += (s.position[i] - want) * price
	s.position[i] = want
}

// make takes the other side of a marketable order.
func (s *strategies) make(e *market.Event, mid float64) {
	if e.Time == s.orderAt && e.Side == s.orderSide || e.Side == market.NoSide {
		return
	}
	s.orderAt, s.orderSide = e.Time, e.Side
	sign := float64(key(e.Side, 1))
	s.open = append(s.open, quoted{e.Time, float64(e.Price), sign, sign * (float64(e.Price) - mid) / mid})
}

// TestStrategiesE2E checks that there is no free lunch, over ten days of the whole market, or one
// day of a part of it. Simple strategies that cross the spread lose on 95 % of the instruments. A
// market maker keeps a part of its half-spread in every class.
func TestStrategiesE2E(t *testing.T) {
	config := Config{Seed: 1, Days: 1, Instruments: 101}
	if os.Getenv("RUEDA_SOAK") == "1" {
		config = Config{Seed: 1, Days: 10}
	}
	config.Start = friday()
	var d allStrategies
	runDays(t, config, &d)
	class := Classes()
	losers, n := [2]int{}, 0
	gross, kept := map[string]float64{}, map[string]float64{}
	for _, s := range d {
		if s.in.ID.Market != venueBYMA || s.in.ID.Symbol == market.Any {
			continue
		}
		n++
		for i, result := range s.result {
			if result < 0 {
				losers[i]++
			}
		}
		name := class(s.in)
		gross[name] += s.gross
		kept[name] += s.kept
	}
	for i, name := range []string{"momentum", "reversal"} {
		t.Logf("figure: %d days: %s loses on %d of %d instruments", config.Days, name, losers[i], n)
		if losers[i]*100 < n*95 {
			t.Errorf("%s loses on %d of %d instruments only", name, losers[i], n)
		}
	}
	var figures []string
	for _, name := range classNames() {
		if gross[name] == 0 {
			continue // the part of the market has none of this class
		}
		share := kept[name] / gross[name]
		figures = append(figures, name+" "+figure(facts.Figure(share)))
		if share < 0.1 || share > 0.6 {
			t.Errorf("%s: a market maker keeps %.2f of its half-spread", name, share)
		}
	}
	t.Logf("figure: %d days: share of the half-spread that a market maker keeps: %s", config.Days, strings.Join(figures, ", "))
}
