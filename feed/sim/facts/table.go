package facts

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
)

// Figure is a number, or NaN (null in JSON) if there is too little data for it.
type Figure float64

// MarshalJSON implements json.Marshaler.
func (f Figure) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

// Known reports whether f is a number.
func (f Figure) Known() bool { return !math.IsNaN(float64(f)) }

// Row holds the facts of an instrument, or of a class. For spreads and order life, each instrument
// of a class has the same weight. Events, orders and trades of a class are counted together, and so
// are signs. Other figures are means, in which an instrument counts as often as it was observed.
type Row struct {
	Name        string `json:"name"`
	Class       string `json:"class,omitempty"` // of an instrument
	Instruments int    `json:"instruments"`     // with continuous trading
	Hours       Figure `json:"hours"`           // of continuous trading
	Events      int    `json:"events"`
	Trades      int    `json:"trades"`
	Amends      int    `json:"amends"` // cancels and corrections

	EventsPerSecond Figure `json:"events_per_second"` // per instrument, in all phases
	TradesPerDay    Figure `json:"trades_per_day"`    // per instrument, in six hours
	AddsPerTrade    Figure `json:"adds_per_trade"`
	CancelsPerTrade Figure `json:"cancels_per_trade"`

	SpreadTicks [3]Figure `json:"spread_ticks"`        // p10, p50, p90 by time
	SpreadBasis [3]Figure `json:"spread_basis_points"` // p10, p50, p90 by time
	Levels      Figure    `json:"levels"`              // per side
	// of marketable orders, at lags 1, 2, 5, 10, 20
	SignACF    [5]Figure `json:"sign_autocorrelation"`
	Fano       Figure    `json:"fano"`           // of trades per second
	Volatility Figure    `json:"day_volatility"` // of six hours, from minute returns
	Kurtosis   Figure    `json:"minute_kurtosis"`
	MinuteACF  Figure    `json:"minute_autocorrelation"` // of minute returns, at lag 1

	SecondKurtosis Figure `json:"second_kurtosis"`
	// variance of minute returns over 60 times that of second returns
	VarianceRatio Figure `json:"variance_ratio"`
	TenACF        Figure `json:"ten_second_autocorrelation"` // of returns of ten seconds, at lag 1
	// of volume and absolute return of a minute, and of each with the minute before
	VolumeReturn    Figure `json:"volume_return_correlation"`
	VolumeACF       Figure `json:"volume_autocorrelation"`
	AbsoluteACF     Figure `json:"absolute_return_autocorrelation"`
	TradePriceACF   Figure `json:"trade_price_autocorrelation"` // of changes from order to order
	SilentMoves     Figure `json:"silent_moves_per_day"`        // per instrument, in six hours
	AuctionShare    Figure `json:"auction_share"`               // of the traded value
	AfterCloseShare Figure `json:"after_close_share"`           // likewise

	// of adds: inside the spread, at the best price, 1 to 5 ticks behind, 6 to 20, more
	Placement [5]Figure `json:"placement"`
	// until cancelled: p10, p50, p90; only for order-by-order events
	Life [3]Figure `json:"order_life_seconds"`
}

// Table holds the facts of a stream.
type Table struct {
	Classes     []Row `json:"classes"`     // by name
	Instruments []Row `json:"instruments"` // by name
	Late        int   `json:"late_trades"` // received after their second was over, and not counted
}

// Measured returns figures measured order by order during an hour of one share of a large market
// (AAPL at NASDAQ). The simulated exchange is calibrated with them.
func Measured() Row {
	unknown := Figure(math.NaN())
	return Row{
		Name: "AAPL, cited", Instruments: 1, Hours: 1, Trades: 4068,
		EventsPerSecond: unknown, TradesPerDay: 24408, AddsPerTrade: 10.9, CancelsPerTrade: unknown,
		SpreadTicks: [3]Figure{11, 20, 31}, SpreadBasis: [3]Figure{unknown, unknown, unknown},
		Levels: unknown, SignACF: [5]Figure{.69, .53, .32, .16, .11}, Fano: 7.1,
		Volatility: unknown, Kurtosis: unknown, MinuteACF: unknown,
		SecondKurtosis: unknown, VarianceRatio: unknown, TenACF: unknown, VolumeReturn: unknown, VolumeACF: unknown,
		AbsoluteACF: unknown, TradePriceACF: unknown, SilentMoves: unknown, AuctionShare: unknown, AfterCloseShare: unknown,
		Placement: [5]Figure{.196, .078, .164, .281, .280},
		Life:      [3]Figure{.0026, .37, 11.2},
	}
}

// Table computes the facts of all events received so far.
func (c *Collector) Table() Table {
	c.mu.Lock()
	defer c.mu.Unlock()
	var t Table
	classes := map[string][]*instrument{}
	for _, x := range c.all {
		t.Late += x.late
		if x.isMarket || x.open == 0 {
			continue
		}
		row := sum([]*instrument{x})
		row.Name, row.Class = x.definition.ID.String(), x.class
		t.Instruments = append(t.Instruments, row)
		classes[x.class] = append(classes[x.class], x)
	}
	for name, list := range classes {
		slices.SortFunc(list, func(a, b *instrument) int {
			return strings.Compare(a.definition.ID.String(), b.definition.ID.String())
		})
		row := sum(list)
		row.Name = name
		t.Classes = append(t.Classes, row)
	}
	byName := func(a, b Row) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(t.Classes, byName)
	slices.SortFunc(t.Instruments, byName)
	return t
}

// mean is a weighted mean of known values.
type mean struct{ sum, weight float64 }

func (m *mean) add(value, weight float64) {
	if !math.IsNaN(value) && weight > 0 {
		m.sum += value * weight
		m.weight += weight
	}
}

func (m *mean) figure() Figure { return Figure(m.sum / m.weight) } // NaN without weight

// sum returns the row of several instruments.
func sum(list []*instrument) Row {
	r := Row{Instruments: len(list)}
	var ticks, basis, life histogram
	var levels, fano, variance, kurtosis, minuteACF mean
	var secondKurtosis, ratio, tenACF, volumeReturn, volumeACF, absoluteACF, priceACF mean
	var silent mean
	var turnover [3]float64
	var sides signs
	hours, adds, cancels := 0.0, 0, 0
	var placed [5]int
	for _, x := range list {
		hours += float64(x.open) / 3600e9
		r.Events += x.events
		r.Trades += x.trades
		r.Amends += x.amends
		adds += x.adds
		cancels += x.cancels
		ticks.merge(&x.spreadTicks)
		basis.merge(&x.spreadBasis)
		life.merge(&x.lifetimes)
		levels.add(x.levelSum/x.levelSamples, x.levelSamples)
		fano.add(x.count.fano(), float64(x.trades))
		variance.add(x.minutes.variance(), x.minutes.n)
		secondKurtosis.add(x.seconds.kurtosis(), x.seconds.n)
		ratio.add(x.minutes.variance()/60/x.seconds.variance(), x.minutes.n)
		tenACF.add(x.tens.autocorrelation(), x.tens.pairs)
		volumeReturn.add(x.minutes.together.value(), x.minutes.n)
		volumeACF.add(x.minutes.volumeCluster.value(), x.minutes.n)
		absoluteACF.add(x.minutes.absCluster.value(), x.minutes.n)
		priceACF.add(x.prices.autocorrelation(), x.prices.pairs)
		silent.add(x.silence.moves/float64(x.open)*float64(6*60*minute), x.silence.weight(x.open))
		for i, v := range x.turnover {
			turnover[i] += v
		}
		kurtosis.add(x.minutes.kurtosis(), x.minutes.n)
		minuteACF.add(x.minutes.autocorrelation(), x.minutes.pairs)
		sides.merge(&x.signs)
		for i, n := range x.placement {
			placed[i] += n
		}
	}
	r.Hours = Figure(hours)
	r.EventsPerSecond = Figure(float64(r.Events) / (hours * 3600))
	r.TradesPerDay = Figure(float64(r.Trades) / hours * 6)
	r.AddsPerTrade = Figure(float64(adds) / float64(r.Trades))
	r.CancelsPerTrade = Figure(float64(cancels) / float64(r.Trades))
	for i := range 3 {
		// spreads are whole ticks; the bins are not
		r.SpreadTicks[i] = Figure(math.Round(ticks.quantiles()[i]))
		r.SpreadBasis[i] = Figure(basis.quantiles()[i])
		r.Life[i] = Figure(life.quantiles()[i])
	}
	r.Levels, r.Fano, r.Kurtosis, r.MinuteACF = levels.figure(), fano.figure(), kurtosis.figure(), minuteACF.figure()
	r.Volatility = Figure(math.Sqrt(360 * float64(variance.figure()))) // of six hours
	r.SecondKurtosis, r.VarianceRatio, r.TenACF = secondKurtosis.figure(), ratio.figure(), tenACF.figure()
	r.VolumeReturn, r.VolumeACF, r.AbsoluteACF = volumeReturn.figure(), volumeACF.figure(), absoluteACF.figure()
	r.TradePriceACF, r.SilentMoves = priceACF.figure(), silent.figure()
	all := turnover[0] + turnover[1] + turnover[2]
	r.AuctionShare, r.AfterCloseShare = Figure(turnover[1]/all), Figure(turnover[2]/all)
	total := 0
	for _, n := range placed {
		total += n
	}
	for i := range r.SignACF {
		r.SignACF[i] = Figure(sides.correlation(i))
		r.Placement[i] = Figure(float64(placed[i]) / float64(total))
	}
	return r
}
