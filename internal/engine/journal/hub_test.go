package journal

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal/disk"
	"github.com/ruedahq/rueda/internal/engine/journal/record"
	"github.com/ruedahq/rueda/market"
)

// soak returns the full count of a long test if RUEDA_SOAK is set, and a twentieth otherwise.
func soak(n int) int {
	if os.Getenv("RUEDA_SOAK") != "" {
		return n
	}
	return max(1, n/20)
}

// start is ten o'clock on the first day of the tests.
const start = int64(1_763_719_200_000_000_000) // 2025-11-21T10:00:00Z, so that the days after it are in the past

// rowSource generates the rows of a market and the state that a hub would have.
type rowSource struct {
	rng      *rand.Rand
	defs     []market.Instrument
	numbers  []uint32
	counts   []Counts
	books    []market.Book
	known    []bool
	position uint64
	at       int64
	step     int64 // mean time between rows
	lead     int   // one row in so many is of the first instrument; 0: none
	clone    bool  // keep generated rows
	resumes  bool  // rows have numbers of a source
	rows     []Row // all generated rows
}

func newRowSource(seed uint64, instruments int) *rowSource {
	t := &rowSource{rng: rand.New(rand.NewPCG(seed, 7)), at: start, step: 800_000, clone: true, resumes: true}
	for i := range instruments {
		t.defs = append(t.defs, testInstrument(i))
	}
	n := len(t.defs)
	t.numbers, t.counts = make([]uint32, n), make([]Counts, n)
	t.books, t.known = make([]market.Book, n), make([]bool, n)
	return t
}

func testInstrument(i int) market.Instrument {
	return market.Instrument{
		ID:   market.InstrumentID{Symbol: fmt.Sprintf("S%03d", i), Market: "SIM", Term: "24hs"},
		Name: fmt.Sprintf("Share %d", i), Kind: "equity", Currency: "ARS", PriceDecimals: 2,
		Ticks: []market.Tick{{Step: 1_000_000}},
	}
}

func (t *rowSource) define(j *Journal) {
	for i, def := range t.defs {
		t.numbers[i] = j.Define(def)
	}
}

// next returns the next row: 85 % book updates of one level, 7 % trades, 8 % quotes; with rare, all
// other kinds too.
func (t *rowSource) next(rare bool) *Row {
	i := t.rng.IntN(len(t.defs))
	if t.lead > 0 && t.rng.IntN(t.lead) == 0 {
		i = 0
	}
	t.position++
	t.at += 1 + t.rng.Int64N(2*t.step)
	r := &Row{Instrument: t.numbers[i], Position: t.position, At: t.at, Time: t.at - 1000 - t.rng.Int64N(50_000_000)}
	c := &t.counts[i]
	k := t.rng.IntN(1000)
	if rare && t.rng.IntN(20) == 0 {
		k = 1000 + t.rng.IntN(8)
	}
	switch {
	case k >= 1000:
		t.rare(r, i, k-1000)
	case k < 70:
		t.trade(r, c)
	case k < 150:
		c.N[Quotes]++
		r.Kind, r.N = Quote, c.N[Quotes]
		r.Bids, r.Asks = []market.Level{t.level()}, []market.Level{t.level()}
	default:
		t.bookChange(r, i)
	}
	if t.rng.IntN(10) == 0 {
		r.Latency = -1
	} else {
		r.Latency = max(0, r.At-r.Time)
	}
	if t.resumes {
		r.Source = sourceOf(r)
	}
	if t.clone {
		t.rows = append(t.rows, cloneRow(r))
	}
	return r
}

// sourceOf returns a number of the source of a row; nil if the row has no event of a source.
func sourceOf(r *Row) *Source {
	s := &Source{Instrument: r.Instrument, Channel: Books, Numbering: 7, Sequence: r.Position}
	if slot := r.Slot(); slot >= 0 && slot <= int(Quotes) {
		s.Channel = Channel(slot)
	} else if !bookKinds.Has(r.Kind) {
		return nil
	}
	return s
}

func (t *rowSource) trade(r *Row, c *Counts) {
	c.N[Trades]++
	c.N[Summaries]++
	r.Kind, r.N = Trade, c.N[Trades]
	r.Side = market.Side(t.rng.IntN(3))
	r.Price, r.Size = t.level().Price, market.Size(1+t.rng.IntN(500))*market.Scale
	r.ID = strconv.FormatUint(1_000_000_000+t.position, 10)
	if t.rng.IntN(20) == 0 {
		r.Conditions = []string{"block", "late"}[:1+t.rng.IntN(2)]
	}
}

func (t *rowSource) bookChange(r *Row, i int) {
	c := &t.counts[i]
	c.N[Books]++
	r.N = c.N[Books]
	if !t.known[i] {
		r.Kind, t.known[i] = BookState, true
		for k := range 5 {
			r.Bids = append(r.Bids, market.Level{Price: market.Price(9_000_000_000 - k*1_000_000), Size: market.Scale, Orders: uint32(k)})
			r.Asks = append(r.Asks, market.Level{Price: market.Price(9_100_000_000 + k*1_000_000), Size: market.Scale, Orders: 1})
		}
		t.books[i].Reset()
	} else {
		r.Kind = BookUpdate
		l := t.level()
		if t.rng.IntN(3) == 0 {
			l.Size, l.Orders = 0, 0
		}
		if t.rng.IntN(2) == 0 {
			r.Bids = []market.Level{l}
		} else {
			r.Asks = []market.Level{l}
		}
	}
	for _, l := range r.Bids {
		t.books[i].Set(market.Buy, l)
	}
	for _, l := range r.Asks {
		t.books[i].Set(market.Sell, l)
	}
}

func (t *rowSource) rare(r *Row, i, k int) {
	c := &t.counts[i]
	switch k {
	case 0:
		t.trade(r, c)
		r.Kind, r.RefN, r.Side, r.Conditions = Cancel, 1+t.rng.Uint64N(r.N), 0, nil
	case 1:
		t.trade(r, c)
		r.Kind, r.RefN, r.OldPrice, r.OldSize = Correct, 0, r.Price-5, r.Size+5
	case 2:
		c.N[Statuses]++
		*r = Row{Kind: Status, Instrument: r.Instrument, Position: r.Position, N: c.N[Statuses], Time: r.Time, At: r.At,
			Phase: market.Halt, Reason: "volatility", Until: r.At + 1e9}
	case 3, 4:
		n := Interval(t.rng.IntN(int(NumIntervals)))
		c.Bars[n]++
		r.Kind, r.N, r.Time = Bar, c.Bars[n], r.At-r.At%60e9
		r.Bar = BarRow{Interval: n, Revised: k == 4, First: 1, High: 9, Low: -1, Last: 4, Volume: market.Sum{Lo: 77}, Value: market.Sum{Hi: 1, Lo: 2}, Trades: 5}
	case 5:
		c.N[Books]++
		r.Kind, r.N, r.Reason, t.known[i] = BookLost, c.N[Books], "source_gap", false
	case 6:
		c.N[Summaries]++
		r.Kind, r.N, r.Price, r.OldPrice, r.Size = Reference, c.N[Summaries], 100, 101, 3
	case 7:
		t.known[i] = false
		t.bookChange(r, i)
	}
}

func (t *rowSource) level() market.Level {
	return market.Level{
		Price: market.Price(9_000_000_000 + t.rng.Int64N(200)*1_000_000), Size: market.Size(1+t.rng.IntN(900)) * market.Scale,
		Orders: uint32(t.rng.IntN(20)),
	}
}

// checkpoint emits the state of an instrument.
func (t *rowSource) checkpoint(number uint32, emit func(*Row)) {
	i := slices.Index(t.numbers, number)
	if i < 0 {
		return
	}
	emit(&Row{Kind: Numbers, Instrument: number, Position: t.position, Time: t.at, At: t.at, Latency: -1, Counts: t.counts[i]})
	if t.known[i] {
		emit(&Row{
			Kind: BookState, Instrument: number, Position: t.position, N: t.counts[i].N[Books], Time: t.at, At: t.at,
			Bids: t.books[i].Append(nil, market.Buy, 0), Asks: t.books[i].Append(nil, market.Sell, 0),
		})
	}
}

func cloneRow(r *Row) Row {
	c := *r
	c.Conditions, c.Bids, c.Asks = slices.Clone(r.Conditions), slices.Clone(r.Bids), slices.Clone(r.Asks)
	return c
}

// equalRows compares all fields; nil and empty lists are equal.
func equalRows(x, y *Row) bool {
	return x.Kind == y.Kind && x.Side == y.Side && x.Phase == y.Phase && x.Checkpoint == y.Checkpoint &&
		x.Instrument == y.Instrument && x.Position == y.Position && x.N == y.N && x.Time == y.Time && x.At == y.At &&
		x.Latency == y.Latency && x.Price == y.Price && x.Size == y.Size && x.OldPrice == y.OldPrice && x.OldSize == y.OldSize &&
		x.RefN == y.RefN && x.ID == y.ID && x.Reason == y.Reason && x.Until == y.Until && x.Bar == y.Bar && x.Counts == y.Counts &&
		slices.Equal(x.Conditions, y.Conditions) && slices.Equal(x.Bids, y.Bids) && slices.Equal(x.Asks, y.Asks)
}

func sameRows(t testing.TB, what string, got, want []Row) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if !equalRows(&got[i], &want[i]) {
			t.Fatalf("%s: row %d:\n got %+v\nwant %+v", what, i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
}

// testConfig returns a configuration with a temporary folder.
func testConfig(t testing.TB) Config {
	t.Helper()
	return Config{Folder: t.TempDir(), BootID: "boot-1", Logger: slog.New(slog.NewTextHandler(testWriter{t}, nil))}
}

type testWriter struct{ testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.Logf("%s", b)
	return len(b), nil
}

func mustOpen(t testing.TB, cfg Config) *Journal {
	t.Helper()
	j, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// begin opens a journal for the rows of a source.
func begin(t testing.TB, cfg Config, src *rowSource) *Journal {
	t.Helper()
	j := mustOpen(t, cfg)
	if err := j.Restore(func(*Row) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := j.Start(src.checkpoint); err != nil {
		t.Fatal(err)
	}
	src.define(j)
	return j
}

// write appends rows, with a commit after every few.
func (t *rowSource) write(j *Journal, n int, rare bool) {
	for i := range n {
		j.Append(t.next(rare))
		if i%7 == 6 {
			j.Commit()
		}
	}
	j.Commit()
}

// scanAll returns all rows of a scan.
func scanAll(t testing.TB, a *Archive, from ScanStart) []Row {
	t.Helper()
	return scanSome(t, a, from, math.MaxInt)
}

// scanSome returns the first rows of a scan, at most some.
func scanSome(t testing.TB, a *Archive, from ScanStart, most int) []Row {
	t.Helper()
	var got []Row
	err := a.Scan(t.Context(), from, nil, allKinds, func(r *Row) bool {
		got = append(got, cloneRow(r))
		return len(got) < most
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

const allKinds = KindSet(1<<record.NumKinds - 1)

// readAll returns all rows of a read.
func readAll(t testing.TB, a *Archive, s Series, r Range) []Row {
	t.Helper()
	var got []Row
	err := a.Read(t.Context(), s, r, func(_ string, r *Row) bool {
		got = append(got, cloneRow(r))
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// of returns the rows of a series.
func of(rows []Row, number uint32, slot int) []Row {
	var list []Row
	for i := range rows {
		if rows[i].Instrument == number && rows[i].Slot() == slot && !rows[i].Checkpoint {
			list = append(list, rows[i])
		}
	}
	return list
}

// Names of files and sizes of package state.
const (
	stateName       = "state"
	stateSlot       = 4096
	highWaterPrefix = "rueda-"
)

// highWaterPath returns the high-water mark of a journal.
func highWaterPath(folder string, journal [16]byte) string {
	return filepath.Join(folder, highWaterPrefix+hex.EncodeToString(journal[:]))
}

// realSystem returns the real file operations.
func realSystem() *disk.System {
	var s disk.System
	s.Fill()
	return &s
}
