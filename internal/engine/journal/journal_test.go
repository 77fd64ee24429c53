package journal

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
	"github.com/ruedahq/rueda/market"
)

// seriesOf returns the series of a slot.
func seriesOf(id market.InstrumentID, slot int) Series {
	switch {
	case slot == record.SlotSummaries:
		return Series{Instrument: id, Channel: Summaries}
	case slot >= record.SlotBars:
		return Series{Instrument: id, Channel: Bars, Interval: Interval(slot - record.SlotBars)}
	}
	return Series{Instrument: id, Channel: Channel(slot)}
}

// checkAll compares everything that an archive returns with a source.
func checkAll(t *testing.T, what string, a *Archive, src *rowSource) {
	t.Helper()
	sameRows(t, what+": scan", scanAll(t, a, ScanStart{}), src.rows)
	for i, def := range src.defs {
		for slot := range record.NumSlots {
			want := of(src.rows, src.numbers[i], slot)
			s := seriesOf(def.ID, slot)
			sameRows(t, what+": read", readAll(t, a, s, Range{}), want)
			back := readAll(t, a, s, Range{Reverse: true})
			slices.Reverse(back)
			sameRows(t, what+": read backwards", back, want)
		}
	}
}

func TestWriteAndRead(t *testing.T) {
	cfg := testConfig(t)
	cfg.Segment = 200_000
	src := newRowSource(1, 12)
	j := begin(t, cfg, src)
	src.write(j, 20_000, true)
	checkAll(t, "open", j.Archive, src)

	r, err := OpenReader(t.Context(), cfg.Folder)
	if err != nil {
		t.Fatal(err)
	}
	checkAll(t, "reader next to the writer", r.Archive, src)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	epoch := j.Epoch()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}

	j = mustOpen(t, cfg)
	if j.Epoch() != epoch {
		t.Errorf("epoch %q after a clean end, %q before", j.Epoch(), epoch)
	}
	checkAll(t, "opened again", j.Archive, src)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRowsOfAllShapes has extreme values of every field.
func TestRowsOfAllShapes(t *testing.T) {
	cfg := testConfig(t)
	src := newRowSource(1, 1)
	j := begin(t, cfg, src)
	many := make([]market.Level, 70_000)
	for i := range many {
		many[i] = market.Level{Price: market.Price(-i), Size: market.Size(i + 1), Orders: uint32(i)}
	}
	rows := []Row{
		{Kind: Trade, N: math.MaxUint64, Position: 1<<50 - 1, Time: math.MinInt64, At: start, Price: math.MinInt64, Size: math.MaxInt64, Side: market.Sell},
		{Kind: Trade, N: 1 << 40, Position: 1 << 50, Time: math.MaxInt64, At: start + 1, Latency: -1, ID: "x", TradeDetails: market.TradeDetails{Conditions: []string{"a", "", "c"}}},
		{Kind: Trade, N: 3, Position: 1<<50 + 1, Time: 0, At: start + 1e15, Latency: -1},
		{Kind: Trade, N: 4, Position: 1<<50 + 2, Time: start, At: start, Latency: 0},
		{Kind: Trade, N: 5, Position: 1<<50 + 3, Time: -5, At: -6, Latency: -1},
		{Kind: Quote, N: 1, Position: 1<<50 + 4, Time: start, At: start},
		{Kind: Quote, N: 2, Position: 1<<50 + 5, Time: start, At: start, Asks: many[:1]},
		{Kind: BookState, N: 1, Position: 1<<50 + 6, Time: start, At: start, Bids: many, Asks: many[:3]},
		{Kind: BookUpdate, N: 2, Position: 1<<50 + 7, Time: start, At: start, Bids: many[:2], Asks: many[:65535]},
		{Kind: BookUpdate, N: 3, Position: 1<<50 + 8, Time: start, At: start, Bids: many[:65534], Asks: many[:1]},
		{Kind: Status, N: 1, Position: 1<<50 + 9, Time: start, At: start, Phase: market.FeedUp, Until: math.MaxInt64, Reason: "r"},
	}
	for i := range rows {
		r := &rows[i]
		r.Instrument = 1
		if r.Latency >= 0 {
			r.Latency = max(0, r.At-r.Time)
			if r.Time < 0 && r.At-r.Time < 0 {
				r.Latency = 0
			}
		}
		j.Append(r)
		if i%2 == 0 {
			j.Commit()
		}
	}
	j.Commit()
	sameRows(t, "scan", scanAll(t, j.Archive, ScanStart{}), rows)
	id := src.defs[0].ID
	sameRows(t, "trades", readAll(t, j.Archive, Series{Instrument: id}, Range{}), rows[:5])
	sameRows(t, "books", readAll(t, j.Archive, Series{Instrument: id, Channel: Books}, Range{}), rows[7:10])
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = mustOpen(t, cfg)
	sameRows(t, "opened again", scanAll(t, j.Archive, ScanStart{}), rows)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRanges(t *testing.T) {
	cfg := testConfig(t)
	cfg.Segment = 300_000
	src := newRowSource(3, 3)
	j := begin(t, cfg, src)
	src.write(j, 30_000, true)
	defer j.Close()
	id := src.defs[1].ID
	all := of(src.rows, src.numbers[1], int(Trades))
	n := uint64(len(all))
	mid := all[len(all)/2].Time
	for _, r := range []Range{
		{AfterN: 5}, {ToN: 5}, {AfterN: 5, ToN: 6}, {AfterN: n - 1}, {AfterN: n}, {AfterN: n + 100}, {AfterN: 100, ToN: 900},
		{Start: mid}, {End: mid}, {Start: mid, End: mid + 1}, {Start: mid - 1e9, End: mid + 1e9, AfterN: 30}, {Epoch: j.Epoch()},
		{Start: math.MaxInt64}, {End: 1},
	} {
		var want []Row
		b := r.bounded()
		for _, row := range all {
			if b.has(row.N, row.Time) {
				want = append(want, row)
			}
		}
		sameRows(t, "range", readAll(t, j.Archive, Series{Instrument: id}, r), want)
		r.Reverse = true
		slices.Reverse(want)
		sameRows(t, "range backwards", readAll(t, j.Archive, Series{Instrument: id}, r), want)
	}
	if got := readAll(t, j.Archive, Series{Instrument: id}, Range{Epoch: "another"}); len(got) != 0 {
		t.Errorf("%d rows of an epoch that is not there", len(got))
	}
	count := 0
	err := j.Read(t.Context(), Series{Instrument: id}, Range{}, func(string, *Row) bool { count++; return count < 3 })
	if err != nil || count != 3 {
		t.Errorf("a read that has enough after 3: %d rows, %v", count, err)
	}
	err = j.Read(t.Context(), Series{Instrument: id, Channel: Books}, Range{Reverse: true}, nil)
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("books backwards: %v", err)
	}
}

func TestScanFromPlaces(t *testing.T) {
	cfg := testConfig(t)
	cfg.Segment = 300_000
	src := newRowSource(4, 5)
	j := begin(t, cfg, src)
	src.write(j, 30_000, true)
	defer j.Close()
	for _, k := range []int{0, 1, 17, 4_999, 15_000, 29_998, 29_999} {
		sameRows(t, "from a position", scanAll(t, j.Archive, ScanStart{Position: src.rows[k].Position}), src.rows[k+1:])
		sameRows(t, "from a time", scanAll(t, j.Archive, ScanStart{Time: src.rows[k].At}), src.rows[k:])
	}
	var got, want []Row
	match := func(n uint32) bool { return n == src.numbers[2] }
	err := j.Scan(t.Context(), ScanStart{}, match, Kinds(Trade, Status), func(r *Row) bool {
		got = append(got, cloneRow(r))
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range src.rows {
		if match(r.Instrument) && (r.Kind == Trade || r.Kind == Status) {
			want = append(want, r)
		}
	}
	sameRows(t, "trades and statuses of one", got, want)
	checkpoints := 0
	err = j.Scan(t.Context(), ScanStart{}, nil, allKinds|Checkpoints, func(r *Row) bool {
		if r.Checkpoint && r.Kind == Numbers {
			checkpoints++
		}
		return true
	})
	if n := len(j.views("")); err != nil || checkpoints != n*len(src.defs) {
		t.Errorf("%d rows of numbers in %d segments of %d instruments: %v", checkpoints, n, len(src.defs), err)
	}
}
