package dbn

import (
	"fmt"
	"testing"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/internal/data/replay/replaytest"
)

// TestEvents checks that nothing of an event is published before its end, and then what it changed
// in all.
func TestEvents(t *testing.T) {
	const last, snapshot = replaytest.Last, replaytest.Snapshot
	add := func(time int64, side byte, id uint64, cents int64, flags byte) *rec {
		return at(time, rec{Action: 'A', Side: side, OrderID: id, Price: nine(cents), Size: 10, Flags: flags})
	}
	cancel := func(time int64, id uint64, size uint32, flags byte) *rec {
		return at(time, rec{Action: 'C', OrderID: id, Size: size, Flags: flags})
	}
	trade := func(time int64, flags byte) *rec {
		return at(time, rec{Action: 'T', Side: 'B', Price: nine(15000), Size: 1, Flags: flags})
	}
	other := func(r *rec) *rec {
		r.Instrument = 33
		return r
	}
	const second = 1_000_000_001
	book := []string{"AAPL snapshot [] [] +1", "AAPL update [300@150/1] [] +2"}
	for _, tt := range []struct {
		name    string
		records []*rec
		want    []string
		skipped decode.Skipped
	}{
		{"a book that is crossed within the event",
			[]*rec{add(3, 'A', 2, 14990, 0), trade(3, 0), cancel(4, 1, 300, 0), cancel(4, 2, 4, last)},
			[]string{`AAPL trade "" buy 1 at 150 +3`, "AAPL update [0@150] [6@149.9/1] +4"}, decode.Skipped{}},
		{"changes that cancel each other",
			[]*rec{add(3, 'B', 2, 15000, 0), add(3, 'B', 3, 14990, 0), cancel(3, 3, 10, 0), cancel(3, 2, 10, last)}, nil, decode.Skipped{}},
		{"two instruments",
			[]*rec{add(3, 'B', 2, 14990, 0), other(at(3, rec{Action: 'R', Side: 'N', Flags: last})), other(add(4, 'A', 9, 15100, last)), cancel(5, 1, 300, last)},
			[]string{"33 snapshot [] [] +3", "33 update [] [10@151/1] +4", "AAPL update [0@150 10@149.9/1] [] +5"}, decode.Skipped{}},
		{"the file ends within an event",
			[]*rec{cancel(3, 1, 100, last), trade(4, 0), add(4, 'B', 2, 14990, 0), at(4, rec{Action: 'N', Side: 'N'})},
			[]string{"AAPL update [200@150/1] [] +3", `AAPL trade "" buy 1 at 150 +4`}, decode.Skipped{decode.Incomplete: 1, decode.NoEffect: 1}},
		{"the file ends after trades without an end",
			[]*rec{trade(3, last), trade(4, 0), trade(4, 0), other(trade(4, 0)), trade(5, 0)},
			[]string{`AAPL trade "" buy 1 at 150 +3`, `AAPL trade "" buy 1 at 150 +4`, `AAPL trade "" buy 1 at 150 +4`, `AAPL trade "" buy 1 at 150 +5`, `33 trade "" buy 1 at 150 +4`}, decode.Skipped{}},
		{"trades without an end, long before an order",
			[]*rec{trade(3, last), trade(4, 0), at(4, rec{Action: 'F', Side: 'A', OrderID: 9}), add(5+second, 'B', 2, 14990, last)},
			[]string{`AAPL trade "" buy 1 at 150 +3`, `AAPL trade "" buy 1 at 150 +4`, "AAPL update [10@149.9/1] [] +1000000006"}, decode.Skipped{decode.NoEffect: 1}},
		{"trades without an end, shortly before an order",
			[]*rec{trade(3, 0), trade(second, 0), add(2+second, 'B', 2, 14990, last)},
			[]string{`AAPL trade "" buy 1 at 150 +3`, `AAPL trade "" buy 1 at 150 +1000000001`, "AAPL update [10@149.9/1] [] +1000000003"}, decode.Skipped{}},
		{"a snapshot without an end",
			[]*rec{at(3, rec{Action: 'R', Side: 'N', Flags: snapshot}), add(3, 'B', 2, 14990, snapshot), add(3+second, 'A', 3, 15010, snapshot), trade(4, last)},
			[]string{"AAPL snapshot [10@149.9/1] [10@150.1/1] +1000000004", `AAPL trade "" buy 1 at 150 +4`}, decode.Skipped{}},
		{"a clear without an end",
			[]*rec{at(3, rec{Action: 'R', Side: 'N'}), other(trade(4+second, last)), add(5+second, 'B', 2, 14990, last)},
			[]string{"AAPL snapshot [] [] +3", `33 trade "" buy 1 at 150 +1000000005`, "AAPL update [10@149.9/1] [] +1000000006"}, decode.Skipped{}},
		{"a clear at the beginning of an event",
			[]*rec{at(3, rec{Action: 'R', Side: 'N'}), other(trade(4, last)), add(5, 'B', 2, 14990, last)},
			[]string{`33 trade "" buy 1 at 150 +4`, "AAPL snapshot [10@149.9/1] [] +5"}, decode.Skipped{}},
		{"a clear at the end of the file", []*rec{at(3, rec{Action: 'R', Side: 'N'})}, []string{"AAPL snapshot [] [] +3"}, decode.Skipped{}},
		{"a gap within an event",
			[]*rec{trade(3, 0), cancel(3, 9, 1, 0), trade(3, 0), at(3, rec{Action: 'R', Side: 'N'}), add(3, 'B', 2, 14990, last)},
			[]string{`AAPL trade "" buy 1 at 150 +3`, "AAPL gap  unknown_order +3", `AAPL trade "" buy 1 at 150 +3`, "AAPL snapshot [10@149.9/1] [] +3"}, decode.Skipped{}},
		{"an event that lasts too long",
			[]*rec{trade(3, 0), cancel(3, 1, 100, 0), trade(4+second, 0), trade(5+second, 0), cancel(6+second, 1, 100, last), cancel(7+second, 1, 100, last)},
			[]string{`AAPL trade "" buy 1 at 150 +3`, "AAPL gap  unfinished_event +1000000005", `AAPL trade "" buy 1 at 150 +1000000005`,
				`AAPL trade "" buy 1 at 150 +1000000006`, "AAPL snapshot [100@150/1] [] +1000000007", "AAPL update [0@150] [] +1000000008"}, decode.Skipped{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data := file(replaytest.SchemaMBO, func(w *replaytest.DBN) {
				known(w)
				for _, r := range tt.records {
					w.MBO(r)
				}
			})
			got := run(data)
			expect(t, got, append(book[:2:2], tt.want...)...)
			if got.Stats.Skipped != tt.skipped {
				t.Errorf("skipped %v, want %v", got.Stats.Skipped.String(), tt.skipped.String())
			}
		})
	}
}

// TestUnmarkedEvents checks that events end when the time advances in a file without F_LAST.
func TestUnmarkedEvents(t *testing.T) {
	expect(t, run(file(replaytest.SchemaMBO, func(w *replaytest.DBN) {
		w.MBO(at(1, rec{Action: 'R', Side: 'N'}))
		w.MBO(at(2, rec{Action: 'A', Side: 'B', OrderID: 1, Price: nine(15000), Size: 300}))
		w.MBO(at(2, rec{Action: 'A', Side: 'A', OrderID: 2, Price: nine(14000), Size: 300}))
		w.MBO(at(2, rec{Action: 'T', Side: 'A', Price: nine(15000), Size: 300}))
		w.MBO(at(2, rec{Action: 'C', OrderID: 2, Size: 300}))
		w.MBO(at(3, rec{Action: 'C', OrderID: 1, Size: 100}))
	})),
		"AAPL snapshot [] [] +1",
		`AAPL trade "" sell 300 at 150 +2`,
		"AAPL update [300@150/1] [] +2",
		"AAPL update [200@150/1] [] +3",
	)
}

// TestEventsOfLevels checks that the levels of a record without F_LAST are not published if another
// record of its event follows.
func TestEventsOfLevels(t *testing.T) {
	const last = replaytest.Last
	level := func(bid, ask int64) pair {
		return pair{Bid: nine(bid), BidSize: 1, BidCount: 1, Ask: nine(ask), AskSize: 1, AskCount: 1}
	}
	for depth, schema := range map[int]uint16{1: replaytest.SchemaMBP1, 10: replaytest.SchemaMBP10} {
		got := run(file(schema, func(w *replaytest.DBN) {
			w.Levels(at(1, rec{Action: 'A', Flags: last}), depth, level(100, 101))
			w.Levels(at(2, rec{Action: 'A'}), depth, level(102, 101))
			w.Levels(at(2, rec{Action: 'T', Side: 'B', Price: nine(101), Size: 1}), depth, level(102, 101))
			w.Levels(at(2, rec{Action: 'C', Flags: last}), depth, level(102, 103))
			w.Levels(at(3, rec{Action: 'A'}), depth, level(102, 104)) // the last record of its event at this depth
			w.Levels(at(4, rec{Action: 'A'}), depth, level(102, 105))
		}))
		want := []string{"AAPL quote [1@1/1] [1@1.01/1] +1", `AAPL trade "" buy 1 at 1.01 +2`, "AAPL quote [1@1.02/1] [1@1.03/1] +2",
			"AAPL quote [1@1.02/1] [1@1.04/1] +3", "AAPL quote [1@1.02/1] [1@1.05/1] +4"}
		if depth == 10 {
			want = []string{"AAPL snapshot [1@1/1] [1@1.01/1] +1", `AAPL trade "" buy 1 at 1.01 +2`, "AAPL update [1@1.02/1 0@1] [0@1.01 1@1.03/1] +2",
				"AAPL update [] [0@1.03 1@1.04/1] +3", "AAPL update [] [0@1.04 1@1.05/1] +4"}
		}
		expect(t, got, want...)
	}
}

// TestLongEvents checks that an event without an end takes bounded memory, whatever it consists of.
func TestLongEvents(t *testing.T) {
	const n = 5 * maxChanges
	for _, tt := range []struct {
		name string
		r    func(i int) *rec
		want string
	}{
		{"trades", func(int) *rec { return at(3, rec{Action: 'T', Side: 'B', Price: nine(1), Size: 1}) }, "[300@150/1] []"},
		{"levels", func(i int) *rec {
			return at(3, rec{Action: 'A', Side: 'A', OrderID: uint64(i + 10), Price: nine(int64(9_000_000 - i)), Size: 1})
		}, ""},
		{"changes of a level", func(i int) *rec {
			return at(3, rec{Action: 'M', Side: 'B', OrderID: 1, Price: nine(15000), Size: uint32(1 + i%7)})
		}, fmt.Sprintf("[%d@150/1] []", 1+(n-1)%7)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := New(Config{})
			got := replaytest.Run(d, file(replaytest.SchemaMBO, func(w *replaytest.DBN) {
				known(w)
				for i := range n {
					w.MBO(tt.r(i))
				}
				w.MBO(at(4, rec{Action: 'N', Side: 'N', Flags: replaytest.Last}))
			}), 1<<16)
			if err := got.Check(); err != nil || got.Err != nil {
				t.Fatal(err, got.Err)
			}
			for _, in := range d.known {
				if held, changes := cap(in.event.held), cap(in.event.changes); held > 2*maxHeld || changes > 2*maxChanges {
					t.Errorf("room for %d events and %d levels", held, changes)
				}
			}
			events := describe(got)
			switch newest := events[len(events)-1]; {
			case tt.name == "changes of a level":
				if len(events) != 3 || newest != "AAPL update "+tt.want+" +4" {
					t.Errorf("%d events, %s", len(events), newest)
				}
			case tt.name == "trades":
				if newest != `AAPL trade "" buy 1 at 0.01 +3` || got.Stats.Gaps != 0 {
					t.Errorf("%d gaps, %s", got.Stats.Gaps, newest)
				}
			case tt.want != "" && newest != "AAPL snapshot "+tt.want+" +4":
				t.Error(newest)
			case tt.want == "" && len(got.Events[len(events)-1].Asks) != n:
				t.Errorf("%d levels", len(got.Events[len(events)-1].Asks))
			}
		})
	}
}
