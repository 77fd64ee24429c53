package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/feed/feedtest"
	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/internal/data/replay/replaytest"
	"github.com/ruedahq/rueda/market"
)

// plainBinance reads lines as Binance's documentation of its streams describes them, with its
// instructions for a local order book.
type plainBinance struct {
	futures  bool
	count    int // lines
	receive  int64
	book     map[string]int64
	known    bool
	spanned  bool              // a message followed the snapshot
	last     int64             // update id of the book
	buffered []json.RawMessage // depth messages since the book was lost
	log      []string
}

// eighth returns a decimal number in units of 1e-8.
func eighth(text any) int64 {
	whole, part, _ := strings.Cut(text.(string), ".")
	n, err := strconv.ParseInt(whole+(part + "00000000")[:8], 10, 64)
	if err != nil {
		panic(text)
	}
	return n
}

func (r *plainBinance) line(text string) {
	r.count++
	time, body, _ := strings.Cut(text, " ")
	receive, _ := strconv.ParseInt(time, 10, 64)
	if receive < r.receive {
		return // late
	}
	r.receive = receive
	var wrapped struct {
		Stream string
		Data   json.RawMessage
	}
	if err := json.Unmarshal([]byte(body), &wrapped); err != nil {
		panic(err)
	}
	_, name, _ := strings.Cut(wrapped.Stream, "@")
	name, _, _ = strings.Cut(name, "@")
	if name == "" && strings.Contains(body, `"lastUpdateId"`) {
		r.snapshot([]byte(body))
	}
	if name != "trade" && name != "bookTicker" && name != "depth" {
		return
	}
	var m map[string]any // a struct would take E for e
	if err := json.Unmarshal(wrapped.Data, &m); err != nil {
		panic(err)
	}
	at := int64(0)
	if t, ok := m["T"].(float64); ok {
		at = int64(t) * 1e6
	}
	switch name {
	case "trade":
		side := map[bool]string{true: "sell", false: "buy"}[m["m"].(bool)]
		if eighth(m["q"]) > 0 {
			r.log = append(r.log, replaytest.Line("trade", int64(m["t"].(float64)), eighth(m["p"]), eighth(m["q"]), at, side))
		}
	case "bookTicker":
		r.log = append(r.log, replaytest.Quote(at, eighth(m["b"]), eighth(m["B"]), eighth(m["a"]), eighth(m["A"])))
	case "depth":
		r.depth(wrapped.Data)
	}
}

// depthMessage has the update ids of a depth message.
func depthMessage(data []byte) (first, last, previous int64, m map[string]any) {
	if err := json.Unmarshal(data, &m); err != nil {
		panic(err)
	}
	id := func(name string) int64 { n, _ := m[name].(float64); return int64(n) }
	return id("U"), id("u"), id("pu"), m
}

// old reports whether a message ended before a snapshot, and spans whether it continues it.
func (r *plainBinance) old(data []byte, id int64) (old, spans bool) {
	first, last, _, _ := depthMessage(data)
	if r.futures {
		return last < id, first <= id && id <= last
	}
	return last <= id, first <= id+1 && id+1 <= last
}

func (r *plainBinance) depth(data []byte) {
	if !r.known {
		r.buffered = append(r.buffered, data)
		return
	}
	first, last, previous, m := depthMessage(data)
	old, spans := r.old(data, r.last)
	switch {
	case !r.spanned && old, r.spanned && last <= r.last:
		return // the book has it
	case !r.spanned && spans, r.spanned && r.futures && previous == r.last, r.spanned && !r.futures && first == r.last+1:
		r.spanned, r.last = true, last
		r.set(m["b"].([]any), "B")
		r.set(m["a"].([]any), "S")
		if len(m["b"].([]any))+len(m["a"].([]any)) > 0 {
			r.log = append(r.log, r.text())
		}
	default:
		r.known, r.buffered = false, []json.RawMessage{data}
		r.log = append(r.log, "gap sequence_gap")
	}
}

func (r *plainBinance) snapshot(data []byte) {
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		panic(err)
	}
	id := int64(m["lastUpdateId"].(float64))
	if r.known && (r.spanned || id < r.last) {
		return // the book is newer
	}
	if !r.known {
		for _, b := range r.buffered {
			if old, spans := r.old(b, id); !old && !spans {
				return // messages are missing in between
			} else if !old {
				break
			}
		}
	}
	r.known, r.spanned, r.last, r.book = true, false, id, map[string]int64{}
	r.set(m["bids"].([]any), "B")
	r.set(m["asks"].([]any), "S")
	r.log = append(r.log, r.text())
	buffered := r.buffered
	r.buffered = nil
	for _, b := range buffered {
		r.depth(b)
	}
}

func (r *plainBinance) set(levels []any, side string) {
	for _, l := range levels {
		key := fmt.Sprint(side, eighth(l.([]any)[0]))
		if r.book[key] = eighth(l.([]any)[1]); r.book[key] == 0 {
			delete(r.book, key)
		}
	}
}

func (r *plainBinance) text() string {
	text := "book"
	for _, key := range slices.Sorted(maps.Keys(r.book)) {
		text += fmt.Sprint(" ", key, "=", r.book[key])
	}
	return text
}

// binanceLog describes events as plainBinance does.
func binanceLog(events []market.Event) (log []string) {
	var book market.Book
	for i := range events {
		e := &events[i]
		best := func(side []market.Level) (price, size int64) {
			if len(side) == 0 {
				return 0, 0
			}
			return int64(side[0].Price), int64(side[0].Size)
		}
		switch e.Kind {
		case market.KindTrade:
			log = append(log, replaytest.Line("trade", e.TradeID, int64(e.Price), int64(e.Size), e.Time, [...]string{"", "buy", "sell"}[e.Side]))
		case market.KindQuote:
			bid, bidSize := best(e.Bids)
			ask, askSize := best(e.Asks)
			log = append(log, replaytest.Quote(e.Time, bid, bidSize, ask, askSize))
		case market.KindGap:
			log = append(log, "gap "+e.Reason)
		default:
			if e.Kind == market.KindSnapshot {
				book.Reset()
			}
			for _, l := range e.Bids {
				book.Set(market.Buy, l)
			}
			for _, l := range e.Asks {
				book.Set(market.Sell, l)
			}
			var keys []string
			for _, side := range []market.Side{market.Buy, market.Sell} {
				for i := range book.Len(side) {
					l := book.At(side, i)
					keys = append(keys, fmt.Sprint([...]string{"", "B", "S"}[side], int64(l.Price), "=", int64(l.Size)))
				}
			}
			slices.SortFunc(keys, func(x, y string) int {
				return strings.Compare(strings.Split(x, "=")[0], strings.Split(y, "=")[0])
			})
			log = append(log, strings.TrimSuffix("book "+strings.Join(keys, " "), " "))
		}
	}
	return log
}

// pastBook is a book as it was at an update id.
type pastBook struct {
	id   uint64
	bids map[string]string
	asks map[string]string
}

// randomBinance writes messages of all streams, with lost, repeated and late ones, and snapshots of
// now and of before.
func randomBinance(rng *rand.Rand, w *replaytest.Binance, lines int) {
	receive, t, id, trade := int64(begin), int64(begin/1e6), uint64(1000), uint64(1)
	now := pastBook{id, map[string]string{}, map[string]string{}}
	past := []pastBook{now}
	side := func(m map[string]string) (list []replaytest.Text) {
		for _, p := range slices.Sorted(maps.Keys(m)) {
			list = append(list, replaytest.Text{p, m[p]})
		}
		if rng.IntN(2) == 0 {
			slices.Reverse(list)
		}
		return list
	}
	change := func(m map[string]string, base int) (list []replaytest.Text) {
		changed := map[string]string{}
		for range rng.IntN(3) {
			p, size := fmt.Sprintf("%d.%02d", base+rng.IntN(8), 10*rng.IntN(2)), fmt.Sprintf("%d.%03d", rng.IntN(2), 500*rng.IntN(2))
			if changed[p], m[p] = size, size; size == "0.000" {
				delete(m, p)
			}
		}
		return side(changed)
	}
	w.Trade(receive, t, trade, "100", "1", true)
	for range lines {
		receive, t = receive+rng.Int64N(1e6), t+rng.Int64N(3)
		switch roll := rng.IntN(100); {
		case roll < 60:
			previous := id
			id += 1 + rng.Uint64N(4)
			bids, asks := change(now.bids, 90), change(now.asks, 100)
			before := w.Bytes
			if w.Depth(receive, t, previous+1, id, previous, bids, asks); rng.IntN(30) == 0 {
				w.Bytes = before // lost
			} else if rng.IntN(30) == 0 {
				w.Depth(receive, t, previous+1, id, previous, bids, asks) // repeated
			}
			past = append(past, pastBook{id, maps.Clone(now.bids), maps.Clone(now.asks)})
		case roll < 70:
			at := past[len(past)-1-min(rng.IntN(6), len(past)-1)]
			w.Snapshot(receive, t, at.id, side(at.bids), side(at.asks))
		case roll < 80:
			trade++
			w.Trade(receive, t, trade, fmt.Sprintf("%d.%d", 99+rng.IntN(2), rng.IntN(9)), fmt.Sprintf("%d.50000000", rng.IntN(3)), rng.IntN(2) == 0)
		case roll < 84 && w.Futures:
			trade++
			w.Trade(receive, t, trade, "0", "0", true) // no trade of the market
		case roll < 94:
			w.Quote(receive, t, id, replaytest.Text{"99.10", fmt.Sprint(rng.IntN(3))}, replaytest.Text{"100.10", fmt.Sprint(rng.IntN(3))})
		case roll < 95:
			w.Aggregate(receive, t, trade, trade, trade, "100", "1", true) // repeats a trade
		case roll < 97:
			w.Other(receive, replaytest.Others[rng.IntN(len(replaytest.Others))])
		default:
			w.Quote(receive-10e6, t, id, replaytest.Text{"1", "1"}, replaytest.Text{"2", "1"}) // late
		}
	}
}

// TestReferenceBinance compares the reader with a plain one on random captures.
func TestReferenceBinance(t *testing.T) {
	seeds := 200
	if os.Getenv("RUEDA_SOAK") != "" {
		seeds = 4000
	}
	path, books, total, faults := write(t, nil), 0, Stats{}, 0
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 47))
		w := replaytest.Binance{Futures: rng.IntN(2) == 0}
		randomBinance(rng, &w, 250)
		fault := []string{"", "", "", "{\n", "1 {}\n", "9 {\"lastUpdateId\":1,\"bids\":[[\"1\",\"0\"]],\"asks\":[]}\n"}[rng.IntN(6)]
		if fault != "" {
			faults++
			fault = strings.Replace(fault, "9 ", fmt.Sprint(int64(begin)+1e12, " "), 1)
		}
		if err := os.WriteFile(path, append(bytes.Clone(w.Bytes), fault...), 0o600); err != nil {
			t.Fatal(err)
		}
		r := plainBinance{futures: w.Futures}
		for line := range strings.Lines(string(w.Bytes)) {
			r.line(line)
		}
		source := open(t, path, Config{Speed: -1})
		var sink feedtest.Recorder
		err := source.Run(t.Context(), &sink)
		if bad, ok := errors.AsType[*Error](err); fault == "" && err != nil || fault != "" && (!ok || bad.Line != r.count+1) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got := binanceLog(sink.Events())
		for i := range max(len(got), len(r.log)) {
			if i >= len(got) || i >= len(r.log) || got[i] != r.log[i] {
				t.Fatalf("seed %d: event %d of %d is\n%q, want\n%q", seed, i, len(r.log), got[i:min(i+1, len(got))], r.log[i:min(i+1, len(r.log))])
			}
			if strings.HasPrefix(got[i], "book ") {
				books++
			}
		}
		s := source.Stats()
		if s.Lines != r.count || s.Used+sum(&s) != r.count {
			t.Fatalf("seed %d: the file has %d lines; %d are counted, %d of which are used, and %s", seed, r.count, s.Lines, s.Used, s.Skipped.String())
		}
		total.Add(s)
	}
	if books < 50*seeds || total.Gaps < seeds || total.Skipped[decode.Late] < seeds || faults < seeds/10 {
		t.Errorf("%d books compared, %d faults, %+v", books, faults, total)
	}
}

// TestOtherStreams checks that messages of other streams, whose members have other types, and
// answers to subscriptions are skipped and counted.
func TestOtherStreams(t *testing.T) {
	w := replaytest.Binance{}
	for _, message := range replaytest.Others {
		w.Other(begin, message)
	}
	w.Trade(begin, begin/1e6, 1, "100", "1", true)
	source := open(t, write(t, w.Bytes), Config{Speed: -1})
	var sink feedtest.Recorder
	if err := source.Run(t.Context(), &sink); err != nil {
		t.Fatal(err)
	}
	if s := source.Stats(); len(sink.Events()) != 1 || s.Used != 1 || s.Skipped[decode.OtherType] != len(replaytest.Others) {
		t.Errorf("%d events, counted %+v", len(sink.Events()), s)
	}
}

// TestAggregateTrades checks that messages of the stream aggTrade are played if the file has no
// trade of the stream trade, and that no trade is played twice.
func TestAggregateTrades(t *testing.T) {
	for _, tt := range []struct {
		name    string
		write   func(w *replaytest.Binance)
		want    []string // id, size
		skipped string
	}{
		{"aggTrade alone", func(w *replaytest.Binance) {
			w.Aggregate(begin, begin/1e6, 7, 100, 105, "100.5", "3", false)
			w.Aggregate(begin, begin/1e6, 8, 106, 106, "100.25", "1", true)
		}, []string{"7 buy 3 at 100.5", "8 sell 1 at 100.25"}, ""},
		{"both", func(w *replaytest.Binance) {
			w.Aggregate(begin, begin/1e6, 7, 100, 105, "100.5", "3", false)
			w.Trade(begin, begin/1e6, 106, "100.25", "1", true)
			w.Aggregate(begin, begin/1e6, 8, 106, 106, "100.25", "1", true)
		}, []string{"106 sell 1 at 100.25"}, "2 repeated"},
		{"trade after more than what is read ahead", func(w *replaytest.Binance) {
			w.Aggregate(begin, begin/1e6, 7, 100, 105, "100.5", "3", false)
			for range 2 {
				w.Other(begin, replaytest.Others[0]+strings.Repeat(" ", previewSize/2))
			}
			w.Trade(begin, begin/1e6, 105, "100.5", "1", false)
			w.Trade(begin, begin/1e6, 106, "100.25", "1", true)
			w.Aggregate(begin, begin/1e6, 8, 106, 106, "100.25", "1", true)
		}, []string{"7 buy 3 at 100.5", "106 sell 1 at 100.25"}, "2 other_type, 2 repeated"},
	} {
		for _, futures := range []bool{false, true} {
			w := replaytest.Binance{Futures: futures}
			tt.write(&w)
			source := open(t, write(t, w.Bytes), Config{Speed: -1})
			var sink feedtest.Recorder
			if err := source.Run(t.Context(), &sink); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range sink.Events() {
				if e.Kind == market.KindTrade {
					got = append(got, fmt.Sprintf("%s %s %s at %s", e.TradeID, [...]string{"", "buy", "sell"}[e.Side], e.Size, e.Price))
				}
			}
			if s := source.Stats(); !slices.Equal(got, tt.want) || s.Skipped.String() != tt.skipped || s.Trades != len(got) {
				t.Errorf("%s: played %q, want %q; skipped %s", tt.name, got, tt.want, s.Skipped.String())
			}
		}
	}
}

// TestUnknownStreams checks that messages of unknown streams, and partial books without others, are
// counted as lost.
func TestUnknownStreams(t *testing.T) {
	w := replaytest.Binance{}
	w.Trade(begin, begin/1e6, 1, "100", "1", true)
	w.Other(begin, replaytest.PartialBook)
	w.Other(begin, `{"stream":"btcusdt@rpiDepth@500ms","data":{"e":"depthRPI","b":1}}`)
	w.Other(begin, `{"e":"tradePreview","s":"BTCUSDT"}`)
	for _, tt := range []struct {
		depth bool
		want  string
	}{{false, "3 unsupported"}, {true, "1 repeated, 1 unknown_book, 2 unsupported"}} {
		if tt.depth {
			w.Depth(begin, begin/1e6, 1, 2, 0, nil, nil)
		}
		source := open(t, write(t, w.Bytes), Config{Speed: -1})
		if err := source.Run(t.Context(), new(feedtest.Recorder)); err != nil {
			t.Fatal(err)
		}
		s, notes := source.Stats(), source.Notes()
		if s.Skipped.String() != tt.want || !s.ManyLost() {
			t.Errorf("skipped %s, want %s", s.Skipped.String(), tt.want)
		}
		if len(notes) != 1 || notes[0].Reason != "unsupported" || !tt.depth && !strings.Contains(notes[0].Detail, "depth20") || tt.depth && !strings.Contains(notes[0].Detail, "rpiDepth") {
			t.Errorf("noted %v", notes)
		}
	}
}

// TestRepeatedDepth checks that a depth message that comes again is no gap.
func TestRepeatedDepth(t *testing.T) {
	w := replaytest.Binance{Futures: true}
	w.Snapshot(begin, begin/1e6, 10, []replaytest.Text{{"99", "1"}}, nil)
	for _, id := range []uint64{10, 11, 12, 11, 12, 10, 13} {
		w.Depth(begin, begin/1e6, id, id, id-1, []replaytest.Text{{"98", fmt.Sprint(id)}}, nil)
	}
	source := open(t, write(t, w.Bytes), Config{Speed: -1})
	var sink feedtest.Recorder
	if err := source.Run(t.Context(), &sink); err != nil {
		t.Fatal(err)
	}
	if s := source.Stats(); len(sink.Events()) != 5 || s.Gaps != 0 || s.Skipped.String() != "3 repeated" {
		t.Errorf("%d events, counted %+v", len(sink.Events()), s)
	}
}
