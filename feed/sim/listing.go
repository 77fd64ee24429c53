package sim

import (
	"fmt"
	"math"

	"github.com/ruedahq/rueda/market"
)

// listing is an instrument as the exchange lists it.
type listing struct {
	definition market.Instrument
	class      *class // how it trades
	value      *class // how its underlying moves
	underlying string
	fx         fx
	base       float64 // first price, in units of market.Price
	grid       grid
	lot        market.Size
}

const (
	venue      = "BYMA"
	lively     = "SIM"  // market of FAKE|SIM|CI
	spot       = "CI"   // settles the same day
	nextDay    = "24hs" // settles the next
	repoPerDay = 0.30 / 365
)

// kind is a panel of the market.
type kind uint8

const (
	leading kind = iota
	general
	sovereign
	dollarBond
	cedear
)

// stock is a symbol with its usual price. Prices and tick tables are plausible
// placeholders, not quotations.
type stock struct {
	symbol     string
	name       string
	kind       kind
	price      float64
	underlying string // "": the symbol itself
	busySpot   bool   // as busy for CI as for 24hs, not illiquid there
}

func stocks() []stock {
	return []stock{
		{"GGAL", "Grupo Financiero Galicia", leading, 7050, "", false},
		{"YPFD", "YPF", leading, 48000, "", false},
		{"PAMP", "Pampa Energía", leading, 4420, "", false},
		{"AL30", "Bono República Argentina 2030 Ley Local", sovereign, 84200, "", true},
		{"GD30", "Bono República Argentina 2030 Ley Extranjera", sovereign, 86900, "", true},
		{"AL30D", "Bono República Argentina 2030 Ley Local, dólares", dollarBond, 58.45, "AL30", true},
		{"GD30D", "Bono República Argentina 2030 Ley Extranjera, dólares", dollarBond, 60.32, "GD30", true},
		{"BMA", "Banco Macro", leading, 11450, "", false},
		{"BBAR", "Banco BBVA Argentina", leading, 8120, "", false},
		{"SUPV", "Grupo Supervielle", leading, 2905, "", false},
		{"ALUA", "Aluar Aluminio Argentino", leading, 912, "", false},
		{"TXAR", "Ternium Argentina", leading, 688, "", false},
		{"CEPU", "Central Puerto", leading, 1785, "", false},
		{"EDN", "Edenor", leading, 2130, "", false},
		{"LOMA", "Loma Negra", leading, 3080, "", false},
		{"TGSU2", "Transportadora de Gas del Sur", leading, 7790, "", false},
		{"TRAN", "Transener", leading, 2540, "", false},
		{"COME", "Sociedad Comercial del Plata", leading, 62.5, "", false},
		{"CRES", "Cresud", leading, 1620, "", false},
		{"TECO2", "Telecom Argentina", leading, 3310, "", false},
		{"MOLI", "Molinos Río de la Plata", general, 3640, "", false},
		{"MIRG", "Mirgor", general, 24500, "", false},
		{"LEDE", "Ledesma", general, 1255, "", false},
		{"GD35", "Bono República Argentina 2035 Ley Extranjera", sovereign, 95300, "", false},
		{"AL35", "Bono República Argentina 2035 Ley Local", sovereign, 93100, "", false},
		{"AE38", "Bono República Argentina 2038 Ley Local", sovereign, 98700, "", false},
		{"GD38", "Bono República Argentina 2038 Ley Extranjera", sovereign, 101400, "", false},
		{"AAPL", "Cedear Apple", cedear, 16700, "", false},
		{"MELI", "Cedear MercadoLibre", cedear, 26600, "", false},
		{"SPY", "Cedear SPDR S&P 500", cedear, 43500, "", false},
		{"NVDA", "Cedear NVIDIA", cedear, 10900, "", false},
		{"KO", "Cedear Coca-Cola", cedear, 20300, "", false},
		{"VIST", "Cedear Vista Energy", cedear, 24150, "", false},
	}
}

// list makes the first n listings: the instrument that is always lively, the
// stocks above in both terms, then made-up ones. 0 is all but the made-up ones.
func list(n int) ([]listing, error) {
	c := newClasses()
	all := []listing{fake(c)}
	add := func(s stock) {
		all = append(all, newListing(c, s, nextDay), newListing(c, s, spot))
	}
	for _, s := range stocks() {
		add(s)
	}
	if n == 0 {
		n = len(all)
	}
	for i := 0; len(all) < n; i++ {
		add(madeUp(i))
	}
	all = all[:n]
	for i := range all {
		in := &all[i].definition
		if err := in.Validate(); err != nil {
			return nil, err
		}
		g, err := newGrid(in.Ticks)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", in.ID, err)
		}
		all[i].grid, all[i].lot = g, in.Lot
	}
	return all, nil
}

// fake is the instrument that a newcomer looks at first.
func fake(c *classes) listing {
	return listing{
		definition: market.Instrument{
			ID:            market.InstrumentID{Symbol: "FAKE", Market: lively, Term: spot},
			Name:          "Always lively test instrument",
			Kind:          "equity",
			Currency:      "ARS",
			PriceDecimals: 2,
			Ticks:         []market.Tick{{From: 0, Step: market.Scale / 2}},
			Lot:           market.Scale,
			MinSize:       market.Scale,
			Phase:         market.Open,
			BookReady:     true,
		},
		class:      &c.lively,
		value:      &c.lively,
		underlying: "FAKE",
		base:       1000 * market.Scale,
	}
}

func newListing(c *classes, s stock, term string) listing {
	l := listing{
		definition: market.Instrument{
			ID:            market.InstrumentID{Symbol: s.symbol, Market: venue, Term: term},
			Name:          s.name,
			Kind:          "equity",
			Currency:      "ARS",
			PriceDecimals: 2,
			Ticks:         shareTicks(),
			Lot:           market.Scale,
			MinSize:       market.Scale,
			Phase:         market.Open,
			BookReady:     true,
		},
		underlying: s.underlying,
		base:       s.price * market.Scale,
	}
	if s.underlying == "" {
		l.underlying = s.symbol
	}
	switch s.kind {
	case leading:
		l.value = &c.leading
	case general:
		l.value = &c.general
	case sovereign, dollarBond:
		l.value = &c.sovereign
		l.definition.Kind = "bond"
		l.definition.Multiplier = market.Scale / 100 // quoted for 100 nominal
		l.definition.Ticks = bondTicks()
		if s.kind == dollarBond {
			l.definition.Currency, l.fx = "USD", byMEP
		}
	case cedear:
		l.value, l.fx = &c.cedear, byCable
		l.definition.Kind = "cedear"
	}
	l.class = l.value
	if term == nextDay {
		l.definition.SettlementDays = 1
		l.base *= 1 + repoPerDay
	} else if !s.busySpot {
		l.class = &c.illiquid
	}
	return l
}

// madeUp is a stock beyond those that exist. Of fifty, 5 are leading shares, 4
// sovereign bonds, 15 of the general panel and 26 cedears.
func madeUp(i int) stock {
	s := stock{symbol: fmt.Sprintf("SIM%04d", i+1), name: fmt.Sprintf("Made-up instrument %d", i+1)}
	switch n := i * 7 % 50; {
	case n < 5:
		s.kind = leading
	case n < 9:
		s.kind = sovereign
	case n < 24:
		s.kind = general
	default:
		s.kind = cedear
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

func bondTicks() []market.Tick {
	const cent = market.Scale / 100
	return []market.Tick{
		{From: 0, Step: cent},
		{From: 500 * market.Scale, Step: 10 * cent},
		{From: 5_000 * market.Scale, Step: 100 * cent},
		{From: 20_000 * market.Scale, Step: 1000 * cent},
	}
}
