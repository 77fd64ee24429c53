package sim

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/market"
)

// listing is an instrument as the exchange lists it.
type listing struct {
	definition market.Instrument
	class      *class // how it trades
	value      *class // how its underlying moves
	underlying string
	fx         fx
	base       float64 // first price, in units of market.Price, before the carry of its term
	grid       grid
	lot        market.Size
	orders     float64 // marketable orders per session
}

const (
	venueBYMA = "BYMA"
	venueSIM  = "SIM"  // market of FAKE|SIM|CI
	spot      = "CI"   // settles on the same day
	nextDay   = "24hs" // settles on the next day

	repoRate = 0.30 // annual rate by which 24hs exceeds CI
	mepRate  = 1440 // initial pesos per local dollar
	cclRate  = 1480 // initial pesos per cable dollar
)

//go:embed listings.txt
var listingsText string

// stock is a line of listings.txt. Prices and tick tables are invented but plausible.
type stock struct {
	class      string
	symbol     string
	name       string
	price      float64
	fx         fx
	underlying string // "": the symbol itself
	busySpot   bool   // as active in CI as in 24hs, instead of illiquid
	lot        int64
	rank       int // in its class, by activity, from 0
}

// stocks parses listings.txt.
func stocks(text string) ([]stock, error) {
	var all []stock
	prices, ranks := map[string]float64{}, map[string]int{}
	for i, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.SplitN(line, " ", 4)
		if len(f) != 4 {
			return nil, fmt.Errorf("read listings: line %d: not a class, a symbol, a price and a name", i+1)
		}
		s := stock{symbol: f[1], name: f[3]}
		s.class, s.busySpot = strings.CutSuffix(f[0], "+")
		class, lot, _ := strings.Cut(s.class, "*")
		if s.class, s.lot = class, 1; lot != "" {
			n, err := strconv.ParseInt(lot, 10, 32)
			if err != nil || n < 1 {
				return nil, fmt.Errorf("read listings: line %d: %q is not a lot", i+1, lot)
			}
			s.lot = n
		}
		if !slices.Contains([]string{"leading", "sovereign", "general", "cedear"}, s.class) {
			return nil, fmt.Errorf("read listings: line %d: %q is not a class", i+1, f[0])
		}
		if err := s.setPrice(f[2], prices); err != nil {
			return nil, fmt.Errorf("read listings: line %d: %w", i+1, err)
		}
		prices[s.symbol] = s.price
		s.rank = ranks[s.class]
		ranks[s.class]++
		all = append(all, s)
	}
	return all, nil
}

// setPrice parses the price of a stock. prices holds the prices of the lines above.
func (s *stock) setPrice(text string, prices map[string]float64) error {
	first, second, pair := strings.Cut(text, "/")
	if symbol, ok := strings.CutPrefix(first, "="); ok {
		s.underlying = symbol
		switch second {
		case "D":
			s.fx, s.price = byMEP, prices[symbol]/mepRate
		case "C":
			s.fx, s.price = byCCL, prices[symbol]/cclRate
		}
		if s.price == 0 {
			return fmt.Errorf("%q is not a line in dollars of a symbol above", text)
		}
		return nil
	}
	price, err := strconv.ParseFloat(first, 64)
	if err == nil && pair {
		var ratio float64
		ratio, err = strconv.ParseFloat(second, 64)
		price *= cclRate / ratio
	}
	if err != nil || !(price > 0) || math.IsInf(price, 0) {
		return fmt.Errorf("%q is not a price", text)
	}
	s.price = price
	if s.class == "cedear" {
		s.fx = byCable
	}
	return nil
}

// Classes returns a function that returns the class of an instrument of the simulated exchange:
// leading, sovereign, general, cedear, illiquid or lively. For any other instrument it returns kind
// and term.
func Classes() func(market.Instrument) string {
	c := newClasses()
	names := map[*class]string{
		&c.leading: "leading", &c.sovereign: "sovereign", &c.general: "general",
		&c.cedear: "cedear", &c.illiquid: "illiquid", &c.lively: "lively",
	}
	known := map[market.InstrumentID]string{}
	if table, err := stocks(listingsText); err == nil {
		for _, s := range table {
			for _, term := range [...]string{spot, nextDay} {
				l := newListing(c, s, term)
				known[l.definition.ID] = names[l.class]
			}
		}
	}
	return func(in market.Instrument) string {
		if name, ok := known[in.ID]; ok {
			return name
		}
		if in.ID.Market == venueSIM {
			return "lively"
		}
		return in.Kind + " " + in.ID.Term
	}
}

// Sizes of the default sets, without the invented listings.
const (
	defaultSet = 67  // the first lines, for a market that is always open
	fullSet    = 401 // 200 symbols in two terms, for a trading day
)

// list returns the first n listings: FAKE, the stocks of listings.txt in both terms, and then
// invented ones.
func list(n int) ([]listing, error) {
	c := newClasses()
	all := []listing{fake(c, "FAKE")}
	add := func(s stock) {
		all = append(all, newListing(c, s, nextDay), newListing(c, s, spot))
	}
	table, err := stocks(listingsText)
	if err != nil {
		return nil, err
	}
	for _, s := range table {
		if len(all) < n {
			add(s)
		}
	}
	for i := 0; len(all) < n; i++ {
		add(madeUp(i))
	}
	all = all[:n]
	for i := range all {
		if err := all[i].complete(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// complete checks the definition and builds the price grid.
func (l *listing) complete() (err error) {
	in := &l.definition
	if err := in.Validate(); err != nil {
		return err
	}
	if l.grid, err = newGrid(in.Ticks); err != nil {
		return fmt.Errorf("list %s: %w", in.ID, err)
	}
	l.lot = in.Lot
	return nil
}

// carry returns the ratio of the term's price to that of CI, if the term settles the given number
// of days later.
func (l *listing) carry(days int) float64 {
	if l.definition.ID.Term != nextDay {
		return 1
	}
	return 1 + repoRate*float64(days)/365
}

// fake returns an instrument with constant activity, for first-time users.
func fake(c *classes, symbol string) listing {
	return listing{
		definition: market.Instrument{
			ID:            market.InstrumentID{Symbol: symbol, Market: venueSIM, Term: spot},
			Name:          "Always lively test instrument",
			Kind:          "equity",
			Currency:      "ARS",
			PriceDecimals: 2,
			Ticks:         []market.Tick{{From: 0, Step: market.Scale / 2}},
			Lot:           market.Scale,
			MinSize:       market.Scale,
			Phase:         market.Open,
			StartsEmpty:   true,
		},
		class:      &c.lively,
		value:      &c.lively,
		underlying: symbol,
		base:       1000 * market.Scale,
		orders:     c.lively.orders,
	}
}

// median returns the median size of an order in lots: that of a ticket at the first price.
func (l *listing) median() float64 {
	in := &l.definition
	ticket := l.class.ticket * market.Scale
	if in.Currency == "USD" {
		ticket /= mepRate
	}
	if in.Multiplier > 0 {
		ticket *= market.Scale / float64(in.Multiplier)
	}
	return max(1, ticket/l.base*market.Scale/float64(in.Lot))
}

func newListing(c *classes, s stock, term string) listing {
	l := listing{
		definition: market.Instrument{
			ID:            market.InstrumentID{Symbol: s.symbol, Market: venueBYMA, Term: term},
			Name:          s.name,
			Kind:          "equity",
			Currency:      "ARS",
			PriceDecimals: 2,
			Ticks:         shareTicks(),
			Lot:           market.Size(s.lot) * market.Scale,
			MinSize:       market.Size(s.lot) * market.Scale,
			Phase:         market.Open,
			StartsEmpty:   true,
		},
		underlying: s.underlying,
		base:       s.price * market.Scale,
		fx:         s.fx,
	}
	if s.underlying == "" {
		l.underlying = s.symbol
	}
	in := &l.definition
	if s.fx == byMEP || s.fx == byCCL {
		in.Currency = "USD"
		in.PriceDecimals, in.Ticks = 3, dollarTicks()
	}
	switch s.class {
	case "leading":
		l.value = &c.leading
	case "general":
		l.value = &c.general
	case "cedear":
		l.value = &c.cedear
		in.Kind = "cedear"
	case "sovereign":
		l.value = &c.sovereign
		in.Kind = "bond"
		in.Multiplier = market.Scale / 100 // quoted per 100 nominal
		in.PriceDecimals, in.Ticks = 2, bondTicks()
	}
	l.class = l.value
	l.orders = quietOrders + l.class.orders*math.Pow(float64(s.rank+1), -l.class.decline)
	if term == nextDay {
		in.SettlementDays = 1
	} else if !s.busySpot {
		l.class = &c.illiquid
		l.orders = quietOrders + spotShare*l.orders
	}
	return l
}

// madeUp returns an invented stock. Of fifty, 5 are leading shares, 4 sovereign bonds, 15 of the
// general panel and 26 cedears.
func madeUp(i int) stock {
	s := stock{lot: 1, rank: 5 + i%50, symbol: fmt.Sprintf("SIM%04d", i+1), name: fmt.Sprintf("Made-up instrument %d", i+1)}
	switch n := i * 7 % 50; {
	case n < 5:
		s.class = "leading"
	case n < 9:
		s.class = "sovereign"
	case n < 24:
		s.class = "general"
	default:
		s.class, s.fx = "cedear", byCable
	}
	// Prices from 60 to 60,000, spread evenly over their logarithm.
	spread := math.Mod(float64(i)*0.618034, 1)
	s.price = math.Round(60 * math.Pow(1000, spread))
	return s
}

func shareTicks() []market.Tick {
	const cent = market.Scale / 100
	return []market.Tick{
		{From: 0, Step: cent},
		{From: 100 * market.Scale, Step: 5 * cent},
		{From: 500 * market.Scale, Step: 50 * cent},
		{From: 5_000 * market.Scale, Step: 100 * cent},
		{From: 20_000 * market.Scale, Step: 500 * cent},
	}
}

func dollarTicks() []market.Tick {
	const mill = market.Scale / 1000
	return []market.Tick{
		{From: 0, Step: mill},
		{From: 10 * market.Scale, Step: 10 * mill},
	}
}

func bondTicks() []market.Tick {
	const cent = market.Scale / 100
	return []market.Tick{
		{From: 0, Step: cent},
		{From: 500 * market.Scale, Step: 10 * cent},
		{From: 5_000 * market.Scale, Step: 100 * cent},
		{From: 20_000 * market.Scale, Step: 1000 * cent},
	}
}
