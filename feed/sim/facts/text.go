package facts

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// fact describes how a figure of a row is printed.
type fact struct {
	name       string // as in docs/simulator.md
	decimals   int
	of         func(*Row) Figure
	needs      need
	ranged     bool // classes of the simulated exchange have a range for it
	rangeIndex int  // index in Ranges
}

// need classifies the data that a row lacks if a fact is unknown.
type need uint8

const (
	nothing need = iota
	someMinutes
	someTrades
)

// factList returns the facts of a class; those of docs/simulator.md come in its order.
func factList() []fact {
	list := []fact{
		{name: "instruments", decimals: 0, of: func(r *Row) Figure { return Figure(r.Instruments) }},
		{name: "hours of each", decimals: 2, of: func(r *Row) Figure { return r.Hours / Figure(r.Instruments) }},
		{name: "events a second", decimals: 2, of: func(r *Row) Figure { return r.EventsPerSecond }},
		{name: "adds to a trade", decimals: 1, of: func(r *Row) Figure { return r.AddsPerTrade }, needs: someTrades, ranged: true},
		{name: "cancels to a trade", decimals: 1, of: func(r *Row) Figure { return r.CancelsPerTrade }, needs: someTrades},
	}
	for i, p := range [...]string{"p10", "p50", "p90"} {
		list = append(list, fact{name: "spread " + p + ", ticks", decimals: 0, of: func(r *Row) Figure { return r.SpreadTicks[i] }, ranged: true})
	}
	for i, p := range [...]string{"p10", "p50", "p90"} {
		list = append(list, fact{name: "spread " + p + ", bp", decimals: 2, of: func(r *Row) Figure { return r.SpreadBasis[i] }, ranged: true})
	}
	list = append(list,
		fact{name: "volatility of a day", decimals: 4, of: func(r *Row) Figure { return r.Volatility }, needs: someMinutes, ranged: true},
		fact{name: "kurtosis of minutes", decimals: 1, of: func(r *Row) Figure { return r.Kurtosis }, needs: someMinutes, ranged: true},
		fact{name: "autocorrelation of minutes", decimals: 3, of: func(r *Row) Figure { return r.MinuteACF }, needs: someMinutes, ranged: true},
		fact{name: "kurtosis of seconds", decimals: 1, of: func(r *Row) Figure { return r.SecondKurtosis }, ranged: true},
		fact{name: "variance ratio", decimals: 3, of: func(r *Row) Figure { return r.VarianceRatio }, needs: someMinutes, ranged: true},
		fact{name: "autocorrelation of 10 s", decimals: 3, of: func(r *Row) Figure { return r.TenACF }, ranged: true},
		fact{name: "volume and return", decimals: 3, of: func(r *Row) Figure { return r.VolumeReturn }, needs: someMinutes, ranged: true},
		fact{name: "volume ACF", decimals: 3, of: func(r *Row) Figure { return r.VolumeACF }, needs: someMinutes, ranged: true},
		fact{name: "absolute return ACF", decimals: 3, of: func(r *Row) Figure { return r.AbsoluteACF }, needs: someMinutes, ranged: true},
		fact{name: "trade price ACF", decimals: 3, of: func(r *Row) Figure { return r.TradePriceACF }, needs: someTrades, ranged: true},
		fact{name: "silent moves a day", decimals: 2, of: func(r *Row) Figure { return r.SilentMoves }, ranged: true},
		fact{name: "in auctions, %", decimals: 2, of: func(r *Row) Figure { return r.AuctionShare * 100 }},
		fact{name: "after the close, %", decimals: 2, of: func(r *Row) Figure { return r.AfterCloseShare * 100 }},
	)
	for i, lag := range lags {
		list = append(list, fact{name: "sign ACF, lag " + strconv.Itoa(lag), decimals: 3, of: func(r *Row) Figure { return r.SignACF[i] }, needs: someTrades, ranged: true})
	}
	list = append(list,
		fact{name: "Fano factor", decimals: 2, of: func(r *Row) Figure { return r.Fano }, needs: someTrades, ranged: true},
		fact{name: "trades a day", decimals: 0, of: func(r *Row) Figure { return r.TradesPerDay }, ranged: true},
		fact{name: "levels a side", decimals: 1, of: func(r *Row) Figure { return r.Levels }, needs: someMinutes},
	)
	for i, where := range [...]string{"inside", "at the best", "1 to 5 behind", "6 to 20 behind", "farther"} {
		list = append(list, fact{name: "placed " + where + ", %", decimals: 1, of: func(r *Row) Figure { return r.Placement[i] * 100 }})
	}
	for i, p := range [...]string{"p10", "p50", "p90"} {
		list = append(list, fact{name: "order life " + p + ", s", decimals: 2, of: func(r *Row) Figure { return r.Life[i] }})
	}
	rangeIndex := 0
	for i := range list {
		if list[i].ranged {
			list[i].rangeIndex = rangeIndex
			rangeIndex++
		}
	}
	return list
}

// known reports whether a row has the fact.
func (f *fact) known(r *Row) bool {
	v := float64(f.of(r))
	return !math.IsNaN(v) && !math.IsInf(v, 0)
}

// text formats the fact of a row, or what the row lacks for it.
func (f *fact) text(r *Row) string {
	switch {
	case f.known(r):
		return number(float64(f.of(r)), f.decimals)
	case f.needs == someMinutes && r.Hours < Figure(r.Instruments):
		return tooShort
	case f.needs == someTrades && r.Trades < 100:
		return tooFew
	}
	return unknown
}

const (
	tooShort = "too short"
	tooFew   = "too few"
	unknown  = "-"
)

// number formats v with the given decimals, or with two significant digits if it would be 0.
func number(v float64, decimals int) string {
	if v != 0 && math.Abs(v) < math.Pow10(-decimals) {
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// width is the maximum width of a table, in characters.
const width = 104

// WriteText writes the table as text: the facts of the classes and of a measured share, the ranges
// of the simulated classes, and some facts of each instrument.
func (t *Table) WriteText(w io.Writer) error {
	var b strings.Builder
	list := slices.DeleteFunc(factList(), func(f fact) bool {
		return !slices.ContainsFunc(t.Classes, func(r Row) bool { return f.text(&r) != unknown })
	})
	classes := t.ordered()
	columns := [][]string{{"fact"}}
	for _, f := range list {
		columns[0] = append(columns[0], f.name)
	}
	for _, r := range append(classes, Measured()) {
		columns = append(columns, r.column(list))
	}
	writeColumns(&b, columns, 1)
	legend(&b, columns, classes)
	if t.Late > 0 {
		fmt.Fprintf(&b, "Trades that arrived after the end of their second and are not counted: %d\n", t.Late)
	}
	writeRanges(&b, classes)
	if len(t.Instruments) > 0 {
		b.WriteByte('\n')
		writeColumns(&b, t.perInstrument(), 2)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ordered returns the classes, those of the simulated exchange first.
func (t *Table) ordered() []Row {
	rank := func(r Row) int {
		if i := slices.Index(simulated(), r.Name); i >= 0 {
			return i
		}
		return len(simulated())
	}
	classes := slices.Clone(t.Classes)
	slices.SortStableFunc(classes, func(a, b Row) int { return rank(a) - rank(b) })
	return classes
}

// ranges returns the ranges of the row, or nil if it has none or covers less than an hour.
func (r *Row) ranges() [][2]float64 {
	if r.Hours < Figure(r.Instruments) {
		return nil
	}
	return Ranges(r.Name)
}

// column returns the name of a class followed by its facts. Facts outside the range of the class
// are marked.
func (r *Row) column(list []fact) []string {
	column := []string{r.Name + " "}
	ranges := r.ranges()
	for i := range list {
		f, mark := &list[i], " "
		if ranges != nil && f.ranged && f.known(r) {
			switch v, span := float64(f.of(r)), ranges[f.rangeIndex]; {
			case v < span[0]:
				mark = "<"
			case v > span[1]:
				mark = ">"
			}
		}
		column = append(column, f.text(r)+mark)
	}
	return column
}

// legend explains the words and marks that occur in the table.
func legend(b *strings.Builder, columns [][]string, classes []Row) {
	has := func(part string) bool {
		return slices.ContainsFunc(columns[1:], func(column []string) bool {
			return slices.ContainsFunc(column[1:], func(s string) bool { return strings.Contains(s, part) })
		})
	}
	if has(tooShort) {
		fmt.Fprintf(b, "%s: this needs %d minutes of continuous trading\n", tooShort, enough+1)
	}
	if has(tooFew) {
		fmt.Fprintf(b, "%s: this needs more trades\n", tooFew)
	}
	if has("<") || has(">") {
		b.WriteString("< and >: below and above the range of the class\n")
	}
	if slices.ContainsFunc(classes, func(r Row) bool { return Ranges(r.Name) != nil && r.ranges() == nil }) {
		b.WriteString("The ranges of a class apply to recordings of an hour or more.\n")
	}
}

// writeRanges writes the ranges of the classes in the table.
func writeRanges(b *strings.Builder, classes []Row) {
	columns := [][]string{{"range of the class"}}
	for _, f := range factList() {
		if f.ranged {
			columns[0] = append(columns[0], f.name)
		}
	}
	for i := range classes {
		ranges := classes[i].ranges()
		if ranges == nil {
			continue
		}
		column := []string{classes[i].Name + " "}
		for _, r := range ranges {
			column = append(column, fmt.Sprintf("%v to %v ", r[0], r[1]))
		}
		columns = append(columns, column)
	}
	if len(columns) > 1 {
		b.WriteByte('\n')
		writeColumns(b, columns, 1)
	}
}

// perInstrument returns columns with the main facts of each instrument.
func (t *Table) perInstrument() [][]string {
	columns := [][]string{{"instrument"}, {"class"}}
	for i := range t.Instruments {
		columns[0] = append(columns[0], t.Instruments[i].Name)
		columns[1] = append(columns[1], t.Instruments[i].Class)
	}
	heads := map[string]string{
		"trades a day": "trades/day", "adds to a trade": "adds", "spread p50, ticks": "ticks", "spread p50, bp": "bp",
		"volatility of a day": "volatility", "sign ACF, lag 1": "sign ACF", "Fano factor": "Fano",
	}
	for _, f := range factList() {
		head, ok := heads[f.name]
		if !ok {
			continue
		}
		column := []string{head + " "}
		for i := range t.Instruments {
			column = append(column, f.text(&t.Instruments[i])+" ")
		}
		columns = append(columns, column)
	}
	return columns
}

// writeColumns writes columns side by side, the first ones left-aligned and the others
// right-aligned. Columns that exceed the width continue below, after the first ones again.
func writeColumns(b *strings.Builder, columns [][]string, left int) {
	wide := make([]int, len(columns))
	begin := 0
	for i, column := range columns {
		for _, s := range column {
			wide[i] = max(wide[i], len(s))
		}
		if i < left {
			begin += wide[i] + 1
		}
	}
	for from := left; from < len(columns); {
		to, sum := from, begin
		for to < len(columns) && (to == from || sum+wide[to]+1 <= width) {
			sum += wide[to] + 1
			to++
		}
		if from > left {
			b.WriteByte('\n')
		}
		for row := range columns[0] {
			line := ""
			for i := range left {
				line += fmt.Sprintf("%-*s ", wide[i], columns[i][row])
			}
			for i := from; i < to; i++ {
				line += fmt.Sprintf("%*s ", wide[i], columns[i][row])
			}
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
		from = to
	}
}
