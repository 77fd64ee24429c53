package sim

import (
	"fmt"

	"github.com/ruedahq/rueda/market"
)

// grid numbers the prices of a tick table from 0, so that matching and order flow can count in
// ticks.
type grid []gridRow

// gridRow is a row of the table. first is the number of its price from.
type gridRow struct {
	first int64
	from  market.Price
	step  market.Price
}

// newGrid returns the grid of a tick table. The table must begin at 0, and each row must begin at a
// tick of the previous row.
func newGrid(ticks []market.Tick) (grid, error) {
	if len(ticks) == 0 || ticks[0].From != 0 {
		return nil, fmt.Errorf("make price grid: tick table must begin at 0")
	}
	var g grid
	first := int64(0)
	for i, t := range ticks {
		if i > 0 {
			width, step := t.From-ticks[i-1].From, ticks[i-1].Step
			if width%step != 0 {
				return nil, fmt.Errorf("make price grid: %s is not on the tick %s of the row before", t.From, step)
			}
			first += int64(width / step)
		}
		g = append(g, gridRow{first: first, from: t.From, step: t.Step})
	}
	return g, nil
}

// price returns the price at an index of the grid.
func (g grid) price(n int64) market.Price {
	i := len(g) - 1
	for i > 0 && n < g[i].first {
		i--
	}
	return g[i].from + market.Price(n-g[i].first)*g[i].step
}

// position returns the position of a price on the grid, in ticks with a fraction.
func (g grid) position(price float64) float64 {
	i := len(g) - 1
	for i > 0 && price < float64(g[i].from) {
		i--
	}
	return float64(g[i].first) + (price-float64(g[i].from))/float64(g[i].step)
}

// step returns the tick size at a price.
func (g grid) step(price float64) float64 {
	i := len(g) - 1
	for i > 0 && price < float64(g[i].from) {
		i--
	}
	return float64(g[i].step)
}
