package export

import (
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// counter counts the bytes written.
type counter struct{ n int64 }

func (c *counter) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return len(b), nil
}

// benchRow is a row of an instrument.
type benchRow struct {
	in  *listing
	row journal.Row
}

// benchRows returns realistic rows of 100 instruments: prices that move by ticks, round sizes,
// rising ids. They are sorted by instrument, or by time for depth.
func benchRows(t Type, n int) []benchRow {
	r := rand.New(rand.NewPCG(1, 2))
	const instruments = 100
	start := int64(1_795_132_800_000_000_000)
	rows := make([]benchRow, 0, n)
	for i := range instruments {
		id := market.InstrumentID{Symbol: fmt.Sprintf("SYM%03d", i), Market: "BYMA", Term: "24hs"}
		in := newListing(market.Instrument{ID: id}, uint32(i+1))
		in.order = i
		price, at := market.Price(100_000+r.IntN(800_000))*market.Scale/100, start
		for k := range n / instruments {
			at += int64(r.ExpFloat64() * 1e9)
			price += market.Price(r.IntN(3)-1) * market.Scale / 2
			size := market.Size(10*(1+r.IntN(50))) * market.Scale
			row := journal.Row{N: uint64(k + 1), Time: at, At: at + int64(50_000+r.IntN(100_000)), Price: price, Size: size}
			bid := market.Level{Price: price, Size: size, Orders: uint32(1 + r.IntN(9))}
			ask := market.Level{Price: price + market.Scale/2, Size: market.Size(1+r.IntN(50)) * market.Scale, Orders: uint32(1 + r.IntN(9))}
			switch t {
			case Trades:
				row.Kind, row.Side, row.ID = journal.Trade, market.Buy+market.Side(r.IntN(2)), fmt.Sprint(k*7+i)
			case Quotes:
				row.Kind, row.Bids, row.Asks = journal.Quote, []market.Level{bid}, []market.Level{ask}
			case Bars:
				row.Kind = journal.Bar
				row.Bar = journal.BarRow{Interval: market.Minute, First: price, High: price, Low: price, Last: price,
					Volume: size.Sum(), Value: price.Times(size), Trades: 1}
			case Depth:
				row.Kind, row.Bids = journal.BookUpdate, []market.Level{bid}
			}
			rows = append(rows, benchRow{in, row})
		}
	}
	return rows
}

// BenchmarkTable measures a row, without reading the journal.
func BenchmarkTable(b *testing.B) {
	for _, t := range Types() {
		rows := benchRows(t, 400_000)
		for _, f := range Formats() {
			b.Run(t.String()+"/"+f.String(), func(b *testing.B) {
				var out counter
				for b.Loop() {
					out = counter{}
					x := newTable(io.Writer(&out), &Request{Type: t, Format: f})
					for i := range rows {
						if err := x.put(rows[i].in, "e7k2", &rows[i].row, true); err != nil {
							b.Fatal(err)
						}
					}
					if err := x.close(nil); err != nil {
						b.Fatal(err)
					}
				}
				all := float64(len(rows))
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/all, "ns/row")
				b.ReportMetric(float64(out.n)/all, "B/row")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
