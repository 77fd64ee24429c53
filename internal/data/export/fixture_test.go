package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

const testDate = "2026-11-20"

// noon returns noon of the day plus some nanoseconds.
func noon(ns int64) int64 {
	return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixNano() + ns
}

func instrument(symbol, venue, term string) market.Instrument {
	return market.Instrument{ID: market.InstrumentID{Symbol: symbol, Market: venue, Term: term}, PriceDecimals: 2}
}

// fixture writes a journal like a hub: it assigns the numbers.
type fixture struct {
	t        *testing.T
	folder   string
	segment  int64 // bytes of a segment; 0: large
	journal  *journal.Journal
	archive  *journal.Archive // for reading
	numbers  map[string]uint32
	position uint64
	n        map[string]uint64
	states   map[string]journal.Row // books of the checkpoint, by instrument
	rows     map[string][]journal.Row
}

func newFixture(t *testing.T, instruments ...market.Instrument) *fixture {
	t.Helper()
	return newFixtureOf(t, 0, instruments...)
}

// newFixtureOf returns a fixture with segments of the given size.
func newFixtureOf(t *testing.T, segment int64, instruments ...market.Instrument) *fixture {
	t.Helper()
	f := &fixture{t: t, folder: t.TempDir(), segment: segment, numbers: map[string]uint32{}, n: map[string]uint64{},
		states: map[string]journal.Row{}, rows: map[string][]journal.Row{}}
	f.open()
	for _, in := range instruments {
		f.numbers[in.ID.String()] = f.journal.Define(in)
	}
	return f
}

// open opens the journal, also again.
func (f *fixture) open() {
	j, err := journal.Open(f.t.Context(), journal.Config{Folder: f.folder, BootID: "boot", Segment: f.segment})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := j.Close(); err != nil {
			f.t.Error(err)
		}
	})
	f.journal, f.archive = j, j.Archive
	err = j.Start(func(number uint32, emit func(*journal.Row)) {
		emit(&journal.Row{Kind: journal.Numbers, Instrument: number})
		for id, r := range f.states {
			if r.Instrument = f.numbers[id]; r.Instrument == number {
				emit(&r)
			}
		}
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

// add appends a row with its number and position, and records it by instrument and channel.
func (f *fixture) add(id string, r journal.Row) {
	f.t.Helper()
	f.position++
	key := id + " " + channelOf(&r)
	f.n[key]++
	number, ok := f.numbers[id]
	if !ok {
		f.t.Fatalf("%s is not defined", id)
	}
	r.Instrument, r.Position, r.N = number, f.position, f.n[key]
	if r.At == 0 {
		r.At = r.Time + 150
	}
	f.journal.Append(&r)
	f.rows[key] = append(f.rows[key], r)
}

// channelOf returns the channel whose numbers a row uses.
func channelOf(r *journal.Row) string {
	switch r.Kind {
	case journal.Trade, journal.Cancel, journal.Correct:
		return "trades"
	case journal.Quote:
		return "quotes"
	case journal.Bar:
		return "bars " + r.Bar.Interval.String()
	}
	return "depth"
}

// closeDay begins the next day, closes the previous one and continues as a reader.
func (f *fixture) closeDay(id string) {
	f.t.Helper()
	tomorrow := noon(12 * 3600e9)
	f.add(al30, journal.Row{Kind: journal.Trade, Time: tomorrow, At: tomorrow - 1, Price: 1, Size: 1, ID: "fast clock"})
	f.add(al30, journal.Row{Kind: journal.Trade, Time: tomorrow - 1, At: tomorrow + 60e9 - 1, Price: 1, Size: 1, ID: "last"})
	f.add(al30, journal.Row{Kind: journal.Trade, Time: tomorrow, Price: 1, Size: 1, ID: "tomorrow's"})
	f.add(gas, journal.Row{Kind: journal.Bar, Time: tomorrow - 3600e9, At: tomorrow + 13*3600e9, Bar: journal.BarRow{Interval: market.Hour}})
	f.add(gas, journal.Row{Kind: journal.Bar, Time: tomorrow - 3600e9, At: tomorrow + 13*3600e9, Bar: journal.BarRow{Interval: market.Hour, Revised: true}})
	f.add(id, journal.Row{Kind: journal.Trade, Time: noon(26 * 3600e9), Price: 999 * market.Scale, Size: market.Scale, ID: "next day"})
	if err := f.journal.Close(); err != nil {
		f.t.Fatal(err)
	}
	synctest.Test(f.t, func(t *testing.T) {
		j, err := journal.Open(t.Context(), journal.Config{Folder: f.folder, BootID: "boot"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- j.Run(ctx) }()
		synctest.Wait()
		cancel()
		if err := errors.Join(<-ended, j.Close()); err != nil {
			t.Fatal(err)
		}
	})
	r, err := journal.OpenReader(f.t.Context(), f.folder)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := r.Close(); err != nil {
			f.t.Error(err)
		}
	})
	f.archive = r.Archive
	if d := r.Days(); len(d) < 2 || !d[len(d)-2].Closed {
		f.t.Fatalf("the day is not closed: %+v", d)
	}
}

// write returns a table of the day.
func (f *fixture) write(r Request) []byte {
	f.t.Helper()
	r.Date = testDate
	var out bytes.Buffer
	if _, _, err := Write(f.t.Context(), &out, f.archive, r); err != nil {
		f.t.Fatal(err)
	}
	return out.Bytes()
}

const (
	ggal = "GGAL|BYMA|24hs"
	al30 = "AL30|BYMA|CI"
	gas  = "GAS|SIM|CI"
)

func decimalText(t *testing.T, s string) market.Price {
	t.Helper()
	p, err := market.ParsePrice(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func levels(text ...string) (list []market.Level) {
	for _, s := range text {
		var price, size string
		var orders uint32
		if n, err := fmt.Sscanf(s, "%s %s %d", &price, &size, &orders); n < 2 {
			panic(fmt.Sprint(s, err))
		}
		p, err := market.ParsePrice(price)
		if err != nil {
			panic(err)
		}
		z, err := market.ParseSize(size)
		if err != nil {
			panic(err)
		}
		list = append(list, market.Level{Price: p, Size: z, Orders: orders})
	}
	return list
}

// hostile returns a day with extreme but valid data.
func hostile(t *testing.T) *fixture {
	dated := instrument("GAS", "SIM", "CI")
	dated.Timezone = "Asia/Tokyo"
	f := newFixture(t, instrument("GGAL", "BYMA", "24hs"), instrument("AL30", "BYMA", "CI"), dated,
		market.Instrument{ID: market.InstrumentID{Symbol: "*", Market: "BYMA", Term: "*"}})
	day := noon(-12 * 3600e9)
	f.add(ggal, journal.Row{Kind: journal.Trade, Time: day - 1, At: day - 1, Price: 1, Size: 1, ID: "yesterday"})
	f.add(ggal, journal.Row{Kind: journal.Trade, Time: day, Price: decimalText(t, "7050.5"), Size: 120 * market.Scale, Side: market.Buy, ID: "1"})
	f.add(ggal, journal.Row{Kind: journal.Cancel, Time: day + 5, Price: 1, Size: 1, ID: "yesterday", RefN: 1})
	long := "ñandú, \"a\"\r\n" + string(bytes.Repeat([]byte("x"), 64-len("ñandú, \"a\"\r\n")))
	f.add(ggal, journal.Row{Kind: journal.Trade, Time: noon(1), Price: -25_000_000, Size: 1e10 * market.Scale / 2, Side: market.Sell, ID: long, TradeDetails: market.TradeDetails{Conditions: []string{"block", "a,b", `"`}}})
	f.add(ggal, journal.Row{Kind: journal.Trade, Time: noon(2), Size: market.Size(1<<63 - 1), Price: market.Price(-1 << 63)})
	f.add(ggal, journal.Row{Kind: journal.Correct, Time: noon(3), Price: 0, Size: 5 * market.Scale, OldPrice: 0, OldSize: 6 * market.Scale, ID: "1", RefN: 2})
	f.add(ggal, journal.Row{Kind: journal.Trade, Time: noon(4), Price: 7 * market.Scale, Size: 2 * market.Scale, ID: "busted"})
	f.add(ggal, journal.Row{Kind: journal.Cancel, Time: noon(5), Price: 7 * market.Scale, Size: 2 * market.Scale, ID: "busted", RefN: 7})
	f.add(al30, journal.Row{Kind: journal.Trade, Time: day - 1, At: day + 60e9 - 1, Price: 1, Size: 1, ID: "yesterday's"})
	f.add(al30, journal.Row{Kind: journal.Trade, Time: day - 1, At: day + 60e9, Price: 1, Size: 1, ID: "late"})
	f.add(gas, journal.Row{Kind: journal.Trade, Time: noon(7), Price: -3 * market.Scale, Size: market.Scale})

	f.add(gas, journal.Row{Kind: journal.Quote, Time: noon(10), Bids: levels("-1.5 10 3"), Asks: levels("0 1 1")})
	f.add(gas, journal.Row{Kind: journal.Quote, Time: noon(11), Asks: levels("0.00000001 10000000000")})
	f.add(gas, journal.Row{Kind: journal.Quote, Time: noon(12), Bids: levels("0 0.00000001 4294967295")})
	f.add(gas, journal.Row{Kind: journal.Quote, Time: noon(13)})

	value := decimalText(t, "-1234.56789012").Times(3 * market.Scale)
	bar := journal.BarRow{Interval: market.Minute, First: -1, High: 0, Low: -2, Last: 5, Volume: market.Size(3 * market.Scale).Sum(), Value: value, Trades: 2}
	f.add(gas, journal.Row{Kind: journal.Bar, Time: noon(0), Bar: bar})
	huge := market.Price(1<<63 - 1).Times(1<<63 - 1)
	f.add(gas, journal.Row{Kind: journal.Bar, Time: noon(0), Bar: journal.BarRow{Interval: market.Day, First: 1, High: 1, Low: 1, Last: 1,
		Volume: market.Sum{Hi: 1, Lo: 5}, Value: huge, Trades: 1, Revised: true}})
	f.add(gas, journal.Row{Kind: journal.Bar, Time: day - 60e9, At: day + 7200e9, Bar: journal.BarRow{Interval: market.Minute, Revised: true}})
	f.add(gas, journal.Row{Kind: journal.Bar, Time: day - 60e9, At: day + 7200e9, Bar: journal.BarRow{Interval: market.Hour}})
	f.add(gas, journal.Row{Kind: journal.Bar, Time: noon(60e9), Bar: journal.BarRow{Interval: market.Minute, Revised: true}})
	return f
}
