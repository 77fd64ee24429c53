package journal

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/ruedahq/rueda/market"
)

// manyInstruments creates a journal of closed days with a row of each of many instruments.
func manyInstruments(t *testing.T, days, instruments int) (cfg Config, ids []market.InstrumentID) {
	t.Helper()
	cfg = testConfig(t)
	j := mustOpen(t, cfg)
	if err := j.Start(func(n uint32, emit func(*Row)) { emit(&Row{Kind: Numbers, Instrument: n}) }); err != nil {
		t.Fatal(err)
	}
	var numbers []uint32
	for i := range instruments {
		def := testInstrument(i)
		def.ID.Symbol = fmt.Sprintf("SYMBOL%06d", i)
		ids, numbers = append(ids, def.ID), append(numbers, j.Define(def))
	}
	position := uint64(0)
	for day := range days + 1 {
		for i, number := range numbers {
			position++
			at := start + int64(day)*dayNanos + int64(i)
			j.Append(&Row{Kind: Trade, Instrument: number, Position: position, N: uint64(day + 1), Time: at, At: at, Price: market.Price(i), Size: 1})
		}
		j.Commit()
	}
	if err := j.closeDays(t.Context(), testEncoder(t)); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return cfg, ids
}

// TestMemoryOfClosedDays checks that a closed day keeps almost nothing of its instruments in
// memory, even after all were read.
func TestMemoryOfClosedDays(t *testing.T) {
	const days, instruments = 5, 2_000
	cfg, ids := manyInstruments(t, days, instruments)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	j := mustOpen(t, cfg)
	for i, id := range ids {
		rows := readAll(t, j.Archive, Series{Instrument: id}, Range{})
		if len(rows) != days+1 || rows[0].Price != market.Price(i) || rows[days].N != days+1 {
			t.Fatalf("%s: %d rows", id, len(rows))
		}
	}
	for _, id := range []market.InstrumentID{{Symbol: "A"}, {Symbol: "SYMBOL000000", Market: "SIM"}, {Symbol: "Z", Market: "SIM", Term: "24hs"}} {
		if rows := readAll(t, j.Archive, Series{Instrument: id}, Range{}); len(rows) > 0 {
			t.Errorf("%s: %d rows", id, len(rows))
		}
	}
	with := heap()
	j.mu.Lock()
	for _, d := range j.days {
		if d.index != nil {
			if err := d.index.Close(); err != nil {
				t.Fatal(err)
			}
			d.index = nil
		}
	}
	j.mu.Unlock()
	bytes := int64(with-heap()) / (days * instruments)
	t.Logf("%d bytes an instrument and day", bytes)
	if bytes > 24 {
		t.Errorf("a closed day keeps %d bytes of each instrument", bytes)
	}
	j.days = nil
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFindInDayFile finds each of many series by search.
func TestFindInDayFile(t *testing.T) {
	for _, instruments := range []int{1, 2, 63, 64, 65, 66, 127, 128, 129, 200} {
		cfg, ids := manyInstruments(t, 1, instruments)
		j := mustOpen(t, cfg)
		index := j.days[0].index
		for i, id := range ids {
			found, err := index.Find(id, int(Trades))
			if err != nil || len(found) != 1 || found[0].Key.Instrument != uint32(i+1) || found[0].Rows != 1 {
				t.Fatalf("%d of %d: %+v, %v", i, instruments, found, err)
			}
			if found, err := index.Find(id, int(Statuses)); err != nil || len(found) > 0 {
				t.Fatalf("%d of %d, a series without rows: %+v, %v", i, instruments, found, err)
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
