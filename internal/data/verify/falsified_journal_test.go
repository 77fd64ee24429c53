package verify

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// journalRows are the rows of a journal in memory.
type journalRows struct {
	definitions []market.Instrument // by number, from 1
	rows        []journal.Row
}

// readRows reads a journal.
func readRows(t *testing.T, folder string) *journalRows {
	t.Helper()
	in, err := journal.OpenReader(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	x := &journalRows{}
	for n := range in.Numbers() {
		def, _ := in.Instrument(n + 1)
		x.definitions = append(x.definitions, def)
	}
	err = in.Scan(t.Context(), journal.ScanStart{}, nil, journal.Kinds(journal.Trade, journal.Status, journal.Quote, journal.Bar, journal.BookState, journal.BookUpdate, journal.Reference), func(r *journal.Row) bool {
		if !r.Checkpoint {
			row := *r
			row.Bids, row.Asks = slices.Clone(r.Bids), slices.Clone(r.Asks)
			row.ID, row.TradeDetails = strings.Clone(r.ID), market.TradeDetails{}
			x.rows = append(x.rows, row)
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// verified writes rows to a journal and returns the report about it.
func (x *journalRows) verified(t *testing.T) *Report {
	t.Helper()
	folder := t.TempDir()
	j, err := journal.Open(t.Context(), journal.Config{Folder: folder, BootID: "boot"})
	if err == nil {
		err = j.Start(func(uint32, func(*journal.Row)) {})
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range x.definitions {
		j.Define(x.definitions[i])
	}
	for i := range x.rows {
		row := x.rows[i]
		row.Position = uint64(i + 1)
		j.Append(&row)
	}
	j.Commit()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Journal(t.Context(), folder, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// one returns the index of a row of the middle half of a kind.
func (x *journalRows) one(random *rand.Rand, kind journal.Kind, accept func(*journal.Row) bool) int {
	var list []int
	for i := range x.rows {
		if r := &x.rows[i]; r.Kind == kind && (accept == nil || accept(r)) {
			list = append(list, i)
		}
	}
	return list[len(list)/4+random.IntN(max(1, len(list)/2))]
}

// journalFalsification changes one row of a kind; nil removes it.
type journalFalsification struct {
	name   string
	kind   journal.Kind
	accept func(*journal.Row) bool
	do     func(*journal.Row)
	missed string // why it may not be found
}

var journalFalsifications = []journalFalsification{
	{name: "trade missing", kind: journal.Trade},
	{name: "price of a trade", kind: journal.Trade, do: func(r *journal.Row) { r.Price += 3 * market.Scale }},
	{name: "size of a trade", kind: journal.Trade, do: func(r *journal.Row) { r.Size += market.Scale }},
	{name: "trade a second later", kind: journal.Trade, do: func(r *journal.Row) { r.Time += 1e9 }},
	{name: "id of a trade", kind: journal.Trade, do: func(r *journal.Row) { r.ID = "1" }},
	{name: "trade renumbered", kind: journal.Trade, do: func(r *journal.Row) { r.N += 7 }},
	{name: "aggressor of a trade", kind: journal.Trade, do: func(r *journal.Row) { r.Side = market.Buy + market.Sell - r.Side },
		missed: "a single trade may have been agreed away from the book"},
	{name: "quote missing", kind: journal.Quote},
	{name: "locked quote", kind: journal.Quote, do: func(r *journal.Row) { r.Bids[0].Price = r.Asks[0].Price }},
	{name: "size of a quote", kind: journal.Quote, do: func(r *journal.Row) { r.Asks[0].Size += market.Scale }},
	{name: "orders of a quote", kind: journal.Quote, do: func(r *journal.Row) { r.Bids[0].Orders += 40 }},
	{name: "time of a quote", kind: journal.Quote, do: func(r *journal.Row) { r.Time -= 3600e9 }},
	{name: "publication of a quote", kind: journal.Quote, do: func(r *journal.Row) { r.At -= 60e9 }},
	{name: "update missing", kind: journal.BookUpdate},
	{name: "update renumbered", kind: journal.BookUpdate, do: func(r *journal.Row) { r.N += 7 }},
	{name: "bid far above", kind: journal.BookUpdate, do: func(r *journal.Row) {
		r.Bids = append([]market.Level{{Price: 1e6 * market.Scale, Size: market.Scale}}, r.Bids...)
	}},
	{name: "size of a level", kind: journal.BookUpdate, accept: func(r *journal.Row) bool { return len(r.Bids)+len(r.Asks) > 0 }, do: func(r *journal.Row) {
		(&append(r.Bids, r.Asks...)[0]).Size += market.Scale
	}, missed: "journals have no checksums, and the level may not become the best one"},
	{name: "bar missing", kind: journal.Bar},
	{name: "volume of a bar", kind: journal.Bar, do: func(r *journal.Row) { r.Bar.Volume = r.Bar.Volume.Add(market.Size(market.Scale).Sum()) }},
	{name: "trades of a bar", kind: journal.Bar, do: func(r *journal.Row) { r.Bar.Trades++ }},
	{name: "bar revised", kind: journal.Bar, do: func(r *journal.Row) { r.Bar.Revised = true }},
	{name: "bar later", kind: journal.Bar, do: func(r *journal.Row) { r.Time += int64(time.Second) }},
}

// TestFalsifiedJournal falsifies rows of the journal of a simulated exchange.
func TestFalsifiedJournal(t *testing.T) {
	source, err := sim.New(sim.Config{Seed: 3, Instruments: 1, Clock: sim.Virtual, Days: 1, Speed: -1,
		Start: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), Duration: 3 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	j, err := journal.Open(t.Context(), journal.Config{Folder: folder, BootID: "boot"})
	if err != nil {
		t.Fatal(err)
	}
	h := hub.New(hub.Config{Journal: j})
	if err := source.Run(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	h.Commit()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	right := readRows(t, folder)
	if r := right.verified(t); r.Wrong() > 0 || r.Result(Quote).Judged < 1000 {
		t.Fatalf("the right rows:\n%s", text(r))
	}
	found := 0
	var missed []string
	for i := range journalFalsifications {
		f := &journalFalsifications[i]
		x := &journalRows{definitions: right.definitions, rows: slices.Clone(right.rows)}
		k := x.one(rand.New(rand.NewPCG(1, uint64(i))), f.kind, f.accept)
		if row := &x.rows[k]; f.do == nil {
			x.rows = slices.Delete(x.rows, k, k+1)
		} else {
			row.Bids, row.Asks = slices.Clone(row.Bids), slices.Clone(row.Asks)
			f.do(row)
		}
		switch r := x.verified(t); {
		case r.Wrong() > 0:
			found++
		case f.missed != "":
			missed = append(missed, f.name+": "+f.missed)
		default:
			t.Errorf("%s is not found:\n%s", f.name, text(r))
		}
	}
	t.Logf("%d of %d are found; missed: %s", found, len(journalFalsifications), strings.Join(missed, "; "))
	for _, kind := range []journal.Kind{journal.Trade, journal.Quote, journal.Bar} {
		x := &journalRows{right.definitions, slices.DeleteFunc(slices.Clone(right.rows), func(r journal.Row) bool { return r.Kind == kind })}
		if r := x.verified(t); r.Wrong() == 0 {
			t.Errorf("a journal without rows of kind %d:\n%s", kind, text(r))
		}
	}
}
