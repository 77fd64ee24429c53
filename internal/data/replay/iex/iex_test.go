package iex

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/internal/data/replay/replaytest"
	"github.com/ruedahq/rueda/market"
)

// begin is 2018-05-29 14:30 UTC.
const begin = 1527604200 * 1_000_000_000

func run(data []byte, filter ...string) *replaytest.Decoded {
	return replaytest.Run(New(decode.NewFilter(filter)), data, 0)
}

func describe(d *replaytest.Decoded) []string {
	var out []string
	for i := range d.Events {
		out = append(out, d.Describe(&d.Events[i], begin))
	}
	return out
}

func expect(t *testing.T, got *replaytest.Decoded, want ...string) {
	t.Helper()
	if list := describe(got); !slices.Equal(list, want) {
		t.Errorf("played\n%s\nwant\n%s", strings.Join(list, "\n"), strings.Join(want, "\n"))
	}
	if got.Err != nil {
		t.Error(got.Err)
	}
	if err := got.Check(); err != nil {
		t.Error(err)
	}
}

// captures returns all ways to write a capture.
func captures() []replaytest.Capture {
	var list []replaytest.Capture
	for _, blocks := range []bool{false, true} {
		for _, big := range []bool{false, true} {
			for _, nano := range []bool{false, true} {
				list = append(list, replaytest.Capture{Blocks: blocks, Big: big, Nano: nano, VLAN: len(list) % 3})
			}
			list = append(list, replaytest.Capture{Blocks: blocks, Big: big, Link: replaytest.LinkRaw},
				replaytest.Capture{Blocks: blocks, Big: big, Link: replaytest.LinkCooked})
		}
	}
	return list
}

// at returns some nanoseconds after begin.
func at(ns int64) int64 { return begin + ns }

// tops returns a capture with every message of TOPS, in three segments.
func tops(c replaytest.Capture) []byte {
	w := replaytest.IEX{Protocol: replaytest.TOPS, Session: 5}
	c.Head()
	w.System(at(1), 'O')
	w.System(at(2), 'S')
	w.Directory(at(3), "AAPL", 1_500_000)
	w.Directory(at(3), "ZVZZT", 0)
	w.Status(at(4), "AAPL", 'T', "")
	w.Operational(at(4), "AAPL", 'N')
	c.Datagram(at(1000), w.Segment(at(900)))
	c.Datagram(at(2000), w.Segment(at(1900))) // a heartbeat
	w.System(at(5), 'R')
	w.Quote(at(6), "AAPL", 100, 1_500_100, 1_500_200, 300)
	w.Quote(at(7), "AAPL", 0, 0, 1_500_200, 300)
	w.Trade(at(8), "AAPL", 'T', 0x80|0x20, 50, 1_500_150, 12345)
	w.Trade(at(9), "AAPL", 'B', 0, 50, 1_500_150, 12345)
	w.Trade(at(9), "AAPL", 'T', 0, 0, 1_500_150, 12346)
	w.Status(at(10), "AAPL", 'H', "T1")
	w.Operational(at(11), "AAPL", 'O')
	w.Operational(at(12), "AAPL", 'N')
	w.Status(at(13), "AAPL", 'O', "T2")
	w.Status(at(14), "AAPL", 'P', "MCB3")
	w.Status(at(15), "AAPL", 'T', "")
	c.Datagram(at(3000), w.Segment(at(2900)))
	w.Official(at(16), "AAPL", 'Q', 1_500_000)
	w.Official(at(17), "AAPL", 'M', 1_501_000)
	w.Other(at(18), "AAPL", 'I', 18)
	w.Other(at(18), "AAPL", 'P', 19)
	w.Other(at(18), "AAPL", 'A', 90)
	w.Other(at(18), "AAPL", 'z', 12)
	w.System(at(19), 'M')
	w.System(at(20), 'E')
	w.System(at(21), 'C')
	c.Packet(at(3500), append(make([]byte, 12), 0x86, 0xdd, 1, 2, 3), 0) // another protocol
	c.Datagram(at(3600), []byte("not IEX-TP"))
	c.Datagram(at(4000), w.Segment(at(3900)))
	return c.Bytes
}

var topsEvents = []string{
	"* status pre_open +2",
	"AAPL reference close 150, settlement 0 +3",
	"AAPL status open +4",
	"* status open +5",
	"AAPL quote [100@150.01] [300@150.02] +6",
	"AAPL quote [] [300@150.02] +7",
	`AAPL trade "12345" 50 at 150.015 [odd_lot intermarket_sweep] +8`,
	`AAPL cancel "12345" 50 at 150.015 +9`,
	"AAPL status halt news_pending +10",
	"AAPL status halt operational_halt +11",
	"AAPL status auction news_released +13",
	"AAPL status pause market_wide_circuit_breaker +14",
	"AAPL status open +15",
	"AAPL reference close 0, settlement 150.1 +17",
	"* status post_close +19",
	"* status closed +20",
}

func TestTOPS(t *testing.T) {
	for _, c := range captures() {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			data := tops(c)
			if !Sniff(data) || Sniff(data[1:]) {
				t.Error("not recognized by its content")
			}
			got := run(data)
			expect(t, got, topsEvents...)
			if got.Stats.Lines != 29 || got.Stats.Used != 16 || got.Stats.Quotes != 2 || got.Stats.Trades != 2 || got.Stats.Statuses != 10 {
				t.Errorf("counted %+v", got.Stats)
			}
			var ids []string
			for _, in := range got.Listed {
				ids = append(ids, in.ID.String())
			}
			if !slices.Equal(ids, []string{"*|IEX|*", "AAPL|IEX|24hs", "ZVZZT|IEX|24hs"}) || !got.Listed[1].QuotesFromFeed || !got.Listed[1].NoBook {
				t.Errorf("listed %+v", got.Listed)
			}
			e := got.Events[4] // the first quote
			unit := int64(1)
			if !c.Nano {
				unit = 1000
			}
			if e.Sequence != 8 || e.Receive != at(3000)/unit*unit {
				t.Errorf("%+v", e)
			}
		})
	}
}

func pcap(segments ...[]byte) []byte {
	var c replaytest.Capture
	c.Head()
	for i, s := range segments {
		c.Datagram(at(int64(i)*1_000_000), s)
	}
	return c.Bytes
}

// TestDEEP checks that levels of one event are published together.
func TestDEEP(t *testing.T) {
	w := replaytest.IEX{Protocol: replaytest.DEEP, Session: 5}
	w.System(at(1), 'O')
	w.Level(at(2), "AAPL", '8', 1, 100, 1_500_000)
	w.Level(at(3), "AAPL", '5', 1, 200, 1_500_100)
	w.Trade(at(4), "AAPL", 'T', 0, 200, 1_500_100, 7)
	w.Level(at(4), "AAPL", '5', 0, 0, 1_500_100)
	w.Level(at(4), "MSFT", '8', 1, 1, 1_000_000) // another stock's in between
	w.Level(at(4), "AAPL", '8', 0, 50, 1_499_900)
	w.Level(at(4), "AAPL", '8', 0, 60, 1_500_100)
	w.Level(at(4), "AAPL", '8', 1, 70, 1_499_900)
	w.Other(at(5), "AAPL", 'E', 18)
	w.Quote(at(6), "AAPL", 1, 1, 2, 1)
	got := run(pcap(w.Segment(at(5))))
	expect(t, got,
		"AAPL update [100@150] [] +2",
		"AAPL update [] [200@150.01] +3",
		`AAPL trade "7" 200 at 150.01 +4`,
		"MSFT update [1@100] [] +4",
		"AAPL update [60@150.01 70@149.99] [0@150.01] +4",
	)
	if in := got.Listed[0]; in.ID.String() != "AAPL|IEX|24hs" || !in.StartsEmpty || in.QuotesFromFeed || in.NoBook || in.PriceDecimals != 4 || in.SettlementDays != 1 {
		t.Errorf("listed %+v", in)
	}
	want := decode.Stats{Lines: 11, Trades: 1, Depth: 4, Levels: 7, Used: 8, Skipped: decode.Skipped{decode.OtherType: 1, decode.NoEffect: 1, decode.Unsupported: 1}}
	if got.Stats != want {
		t.Errorf("counted %+v\n    want %+v", got.Stats, want)
	}
}

// TestSequence checks that missing messages are reported and repetitions skipped.
func TestSequence(t *testing.T) {
	w := replaytest.IEX{Protocol: replaytest.DEEP, Session: 5}
	segment := func(n int64) []byte {
		w.Level(at(n), "AAPL", '8', 1, uint32(n), 1_500_000)
		w.Level(at(n), "AAPL", '8', 1, uint32(n), 1_490_000)
		return w.Segment(at(n))
	}
	s := [][]byte{segment(1), segment(2), segment(3), segment(4)}
	both := func(n int64) []string {
		return []string{fmt.Sprintf("AAPL update [%d@150] [] +%d", n, n), fmt.Sprintf("AAPL update [%d@149] [] +%d", n, n)}
	}
	gap := []string{"AAPL gap  sequence_gap"}
	w.Next = 10
	beat := w.Segment(at(9))
	w.Next = 4 // message 4, which was had, and 5
	w.Level(at(2), "AAPL", '8', 1, 2, 1_490_000)
	w.Level(at(3), "AAPL", '8', 1, 3, 1_500_000)
	overlap := w.Segment(at(3))
	w.Session, w.Next = 6, 0
	again := segment(5)
	w.Session, w.Next = 7, 70
	later := segment(6)
	w.Session, w.Channel, w.Next = 5, 2, 1
	second := segment(7)
	empty := []string{"AAPL gap  session_changed", "AAPL snapshot [] []"}
	for _, tt := range []struct {
		name     string
		segments [][]byte
		want     [][]string
	}{
		{"in order", s, [][]string{both(1), both(2), both(3), both(4)}},
		{"one missing", [][]byte{s[0], s[2], s[3]}, [][]string{both(1), gap}},
		{"one twice", [][]byte{s[0], s[1], s[1], s[2]}, [][]string{both(1), both(2), both(3)}},
		{"two swapped", [][]byte{s[0], s[2], s[1], s[3]}, [][]string{both(1), gap}},
		{"overlap", [][]byte{s[0], s[1], overlap}, [][]string{both(1), both(2), both(3)[:1]}},
		{"end missing", [][]byte{s[0], beat}, [][]string{both(1), gap}},
		{"another session", [][]byte{s[0], again}, [][]string{both(1), empty, both(5)}},
		{"another session in its middle", [][]byte{s[0], later}, [][]string{both(1), empty[:1]}},
		{"late of an ended session", [][]byte{s[0], s[1], again, s[3], s[1]}, [][]string{both(1), both(2), empty, both(5)}},
		{"two channels", [][]byte{s[0], second, s[1]}, [][]string{both(1), both(7), both(2)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			expect(t, run(pcap(tt.segments...)), slices.Concat(tt.want...)...)
		})
	}
	if in := run(pcap(s[1])).Listed[0]; in.StartsEmpty {
		t.Error("a capture that begins in the middle has a book that is known")
	}
}

// TestRestart checks that a session that begins again under its identifier is not taken for a
// repetition, and that a repetition is not taken for a new session.
func TestRestart(t *testing.T) {
	w := replaytest.IEX{Protocol: replaytest.DEEP, Session: 5}
	segment := func(n int64) []byte {
		w.Level(at(n), "AAPL", '8', 1, uint32(n), 1_500_000)
		return w.Segment(at(n))
	}
	first, second := segment(1), segment(2)
	w.Next = 1
	restarted, next := segment(3), segment(4)
	w.Next = 1
	w.Level(at(1), "AAPL", '8', 1, 1, 1_500_000)
	resent := w.Segment(at(9)) // sent later, with an old message
	level := func(n int) string { return fmt.Sprintf("AAPL update [%d@150] [] +%d", n, n) }
	var c replaytest.Capture
	c.Head()
	for i, s := range [][]byte{first, second, first, second, resent, restarted, restarted, next, first} {
		c.Datagram(at(int64(100*(i+1))), s)
	}
	got := run(c.Bytes)
	expect(t, got, level(1), level(2), "AAPL gap  session_changed", "AAPL snapshot [] []", level(3), level(4))
	if got.Stats.Skipped[decode.Repeated] != 5 {
		t.Errorf("%+v", got.Stats)
	}
}

// TestMarketTime checks that a status of the market as a whole has the time of the recording.
func TestMarketTime(t *testing.T) {
	for _, in := range run(tops(replaytest.Capture{})).Listed {
		if !in.VirtualClock {
			t.Errorf("%s has the clock of this machine", in.ID)
		}
	}
}

func TestFilter(t *testing.T) {
	got := run(tops(replaytest.Capture{}), "ZVZZT")
	if len(got.Listed) != 2 || got.Stats.Skipped[decode.Filtered] != 19 || got.Err != nil {
		t.Errorf("listed %v, counted %+v: %v", got.Listed, got.Stats, got.Err)
	}
}

// TestRoundTrip checks that a capture plays the books of its flow.
func TestRoundTrip(t *testing.T) {
	data, f, trades := flow(7, 5, 20_000)
	for _, piece := range []int{0, 1 << 16, 1009} {
		got := replaytest.Run(New(nil), data, piece)
		if got.Err != nil || got.Check() != nil || got.Stats.Gaps != 0 || got.Stats.Trades != trades {
			t.Fatalf("%v, %v, %+v", got.Err, got.Check(), got.Stats)
		}
		books := make([]market.Book, len(got.Listed))
		for i := range got.Events {
			e := &got.Events[i]
			for _, l := range e.Bids {
				books[e.Handle].Set(market.Buy, l)
			}
			for _, l := range e.Asks {
				books[e.Handle].Set(market.Sell, l)
			}
		}
		for h, in := range got.Listed {
			var i int
			if _, err := fmt.Sscanf(in.ID.Symbol, "SYM%d", &i); err != nil {
				t.Fatal(err)
			}
			if err := replaytest.Equal(&books[h], f.Book(i), 0); err != nil {
				t.Errorf("%s: %v", in.ID, err)
			}
		}
	}
}

// flow returns a capture of a random flow, about ten messages per segment.
func flow(seed uint64, instruments, n int) (data []byte, f *replaytest.Flow, trades int) {
	f = replaytest.NewFlow(seed, instruments, begin)
	w := replaytest.IEX{Protocol: replaytest.DEEP, Session: 1}
	c := replaytest.Capture{Blocks: seed%2 == 1, Nano: true}
	c.Head()
	sides := map[uint64]market.Side{}
	for i := range n {
		e := f.Next()
		if e.Kind == market.KindOrderAdd {
			sides[e.OrderID] = e.Side
		}
		if e.Kind == market.KindOrderFill {
			trades++
		}
		w.Order(&e, sides[e.OrderID], f.Book(int(e.Handle)))
		if w.Len() >= 10 || i == n-1 {
			c.Datagram(e.Time+300, w.Segment(e.Time))
		}
	}
	return c.Bytes, f, trades
}

func TestFaults(t *testing.T) {
	w := replaytest.IEX{Protocol: replaytest.DEEP, Session: 5}
	w.Level(at(1), "AAPL", '8', 1, 1, 1_500_000)
	first := w.Segment(at(1))
	good := pcap(first)
	const message = 40 // where a segment's first begins
	second := func(change func(s []byte) []byte) []byte {
		w.Next = 2
		w.Level(at(2), "AAPL", '8', 1, 1, 1_500_000)
		return pcap(first, change(w.Segment(at(2))))
	}
	set := func(at int, b ...byte) func(s []byte) []byte {
		return func(s []byte) []byte { copy(s[at:], b); return s }
	}
	blocks := tops(replaytest.Capture{Blocks: true})
	blocks = blocks[:28+24] // section, interface
	for _, tt := range []struct {
		name   string
		data   []byte
		want   string
		offset int
		events int
	}{
		{"cut off", good[:len(good)-1], "ends within a packet", 24, 0},
		{"cut off in the head", good[:20], "ends within a packet", 0, 0},
		{"nothing in it", good[:24], "no segment of IEX-TP", 24, 0},
		{"text", []byte("Dear reader, ..."), "neither pcap nor pcapng", 0, 0},
		{"long packet", append(slices.Clone(good), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 8, 0), "a packet of 524288 bytes", len(good), 1},
		{"link", append(slices.Clone(good[:20]), 147, 0, 0, 0), "packets of link type 147", 0, 0},
		{"segment longer than its packet", second(set(12, 99)), "should have 99 bytes and has 32", len(good), 1},
		{"message longer than its segment", second(set(message, 31)), "a message of 31 bytes where 30 are left", len(good), 1},
		{"message of no length", second(set(message, 0)), "a message of 0 bytes", len(good), 1},
		{"too few messages", second(set(14, 2)), "ends before message 2 of 2", len(good), 2},
		{"too many bytes", second(set(14, 0)), "has 32 bytes after its messages", len(good), 1},
		{"message too short", second(func(s []byte) []byte { s[message] = 29; s[12] = 31; return s[:len(s)-1] }), "of type '8' and 29 bytes; it should have 30", len(good), 1},
		{"bad time", second(set(message+2+9, 0x80)), "a time before 1970", len(good), 1},
		{"no symbol", second(set(message+2+10, []byte("        ")...)), "a stock without a symbol", len(good), 1},
		{"another protocol", pcap(append([]byte{1, 0, 0x5d, 0}, make([]byte, 60)...)), "no segment of IEX-TP", -1, 0},
		{"another feed alone", func() []byte {
			w := replaytest.IEX{Protocol: 0x8002}
			w.System(at(1), 'O')
			return pcap(w.Segment(at(1)))
		}(), "IEX-TP of protocol 0x8002 alone", -1, 0},
		{"block of no length", append(slices.Clone(blocks), 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), "a block of 0 bytes", len(blocks), 0},
		{"block of two lengths", append(slices.Clone(blocks), 6, 0, 0, 0, 12, 0, 0, 0, 16, 0, 0, 0), "a block of 12 bytes ends as one of 16", len(blocks), 0},
		{"packet block too short", append(slices.Clone(blocks), 6, 0, 0, 0, 12, 0, 0, 0, 12, 0, 0, 0), "a packet block that is too short", len(blocks), 0},
		{"simple block without interface", append(slices.Clone(blocks[:28]), 3, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0), "without an interface", 28, 0},
		{"interface block too short", append(slices.Clone(blocks), 1, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0), "an interface block that is too short", len(blocks), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := run(tt.data)
			if got.Err == nil || !strings.Contains(got.Err.Error(), tt.want) || tt.offset >= 0 && got.Offset != tt.offset {
				t.Errorf("at %d: %v; want %q at %d", got.Offset, got.Err, tt.want, tt.offset)
			}
			if len(got.Events) != tt.events {
				t.Errorf("played %v", describe(got))
			}
		})
	}
}

// TestLeftOut checks that packets that were not captured completely and prices out of range are
// skipped.
func TestLeftOut(t *testing.T) {
	w := replaytest.IEX{Protocol: replaytest.DEEP, Session: 5}
	var c replaytest.Capture
	c.Head()
	for n := range int64(4) {
		price, cut := int64(1_500_000), 0
		switch n {
		case 1:
			price = 1 << 60
		case 2:
			cut = 5
		}
		w.Level(at(n), "AAPL", '8', 1, 1, price)
		c.Packet(at(n), c.Frame(w.Segment(at(n))), cut)
	}
	got := run(c.Bytes)
	expect(t, got,
		"AAPL update [1@150] [] +0",
		"AAPL gap  inexact_price +1",
		"AAPL gap  sequence_gap",
	)
	if got.Stats.Skipped.String() != "1 unknown_book, 1 inexact, 1 incomplete" || len(got.Notes) != 3 {
		t.Errorf("noted %+v, counted %+v", got.Notes, got.Stats)
	}
}

// TestUnusedLevels checks that messages which change no book that is known are counted: those of a
// capture that begins within a session, and those of an event that a gap or the end leaves
// incomplete.
func TestUnusedLevels(t *testing.T) {
	w := replaytest.IEX{Protocol: replaytest.DEEP, Session: 5, Next: 7}
	w.Level(at(1), "AAPL", '8', 1, 100, 1_500_000)
	w.Trade(at(2), "AAPL", 'T', 0, 200, 1_500_100, 7)
	got := run(pcap(w.Segment(at(2))))
	expect(t, got, `AAPL trade "7" 200 at 150.01 +2`)
	if got.Stats.Used != 1 || got.Stats.Skipped.String() != "1 unknown_book" {
		t.Errorf("counted %+v", got.Stats)
	}
	w = replaytest.IEX{Protocol: replaytest.DEEP, Session: 5}
	for range 2 {
		w.Level(at(1), "AAPL", '8', 0, 100, 1_500_000)
		w.Level(at(1), "AAPL", '5', 0, 100, 1_500_100)
	}
	first := w.Segment(at(1))
	w.Session, w.Next = 6, 1
	w.Level(at(3), "AAPL", '8', 0, 100, 1_500_000)
	got = run(pcap(first, w.Segment(at(3))))
	expect(t, got, "AAPL gap  session_changed", "AAPL snapshot [] []")
	if got.Stats.Used != 0 || got.Stats.Skipped.String() != "5 incomplete" {
		t.Errorf("counted %+v", got.Stats)
	}
}

// TestResolution checks the time units of pcapng.
func TestResolution(t *testing.T) {
	for _, tt := range []struct {
		unit byte
		t    uint64
		want int64
	}{
		{6, 1_500_000, 1_500_000_000}, {9, 1_500_000_000, 1_500_000_000}, {3, 1500, 1_500_000_000}, {0, 2, 2_000_000_000},
		{12, 1_500_000_000_000, 1_500_000_000}, {0x80 | 1, 3, 1_500_000_000}, {0x80 | 32, 3 << 31, 1_500_000_000},
		{0, 1 << 63, 0}, {0x80, 1 << 63, 0}, {19, 1 << 63, 922_337_203},
	} {
		var d device
		if err := d.resolution(tt.unit); err != nil {
			t.Fatal(err)
		}
		if got := d.instant(tt.t); got != tt.want {
			t.Errorf("%d of unit %#x is %d ns, want %d", tt.t, tt.unit, got, tt.want)
		}
	}
	var d device
	if d.resolution(20) == nil || d.resolution(0x80|64) == nil {
		t.Error("a unit that cannot be was taken")
	}
}

// FuzzIEX checks that any file is played up to an error and that its events keep the contract,
// whatever the sizes of pieces.
func FuzzIEX(f *testing.F) {
	for i, c := range captures() {
		f.Add(tops(c), 100*i)
	}
	data, _, _ := flow(1, 2, 50)
	f.Add(data, 7)
	data, _, _ = flow(2, 2, 50)
	f.Add(data, 64)
	f.Fuzz(func(t *testing.T, data []byte, piece int) {
		Sniff(data)
		all := run(data)
		if err := all.Check(); err != nil {
			t.Fatal(err)
		}
		parts := replaytest.Run(New(nil), data, max(1, piece%5000))
		if all.Offset != parts.Offset || fmt.Sprint(all.Err) != fmt.Sprint(parts.Err) || all.Stats != parts.Stats || len(all.Events) != len(parts.Events) {
			t.Fatalf("in one piece %+v\nin several %+v", all, parts)
		}
	})
}

// BenchmarkIEX decodes a flow of a hundred stocks. A record is a message.
func BenchmarkIEX(b *testing.B) {
	for _, blocks := range []uint64{0, 1} {
		b.Run([]string{"pcap", "pcapng"}[blocks], func(b *testing.B) {
			data, _, _ := flow(8+blocks, 100, 300_000)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			records := 0
			for b.Loop() {
				d := New(nil)
				var batch decode.Batch
				for rest := data; len(rest) > 0; {
					n, err := d.Decode(rest, &batch)
					if err != nil {
						b.Fatal(err)
					}
					rest = rest[n:]
					batch.Reset()
				}
				records = batch.Stats.Lines
			}
			b.ReportMetric(float64(records)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrecords/s")
		})
	}
}

func TestMutants(t *testing.T) {
	data, _, _ := flow(13, 3, 60)
	for i, data := range [][]byte{data, tops(replaytest.Capture{}), tops(replaytest.Capture{Blocks: true, Nano: true})} {
		if err := replaytest.Mutants(uint64(i), 500, data, func() replaytest.Decoder { return New(nil) }); err != nil {
			t.Error(err)
		}
	}
}

// TestAllocations checks that records cost no allocation in the steady state, apart from the tables
// and the blocks of texts.
func TestAllocations(t *testing.T) {
	data, _, _ := flow(15, 10, 100_000)
	records := 0
	allocs := testing.AllocsPerRun(1, func() {
		d := New(nil)
		var batch decode.Batch
		for rest := data; len(rest) > 0; {
			n, err := d.Decode(rest, &batch)
			if err != nil || n == 0 {
				t.Fatal(n, err)
			}
			rest = rest[n:]
			batch.Reset()
		}
		records = batch.Stats.Lines
	})
	if each := allocs / float64(records); each > 0.01 {
		t.Errorf("%g allocations for %d records: %g each", allocs, records, each)
	}
}
