package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata" // for midnight in New York on systems without time zones

	"github.com/klauspost/compress/zstd"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/feed/feedtest"
	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/internal/data/replay/replaytest"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/market"
)

// The day of the files, and 09:30 on it in New York.
const (
	date     = "2024-01-02"
	midnight = 1704171600 * 1_000_000_000
	opening  = midnight + 34_200*1_000_000_000
)

// sample is a file of each format, with orders of several instruments.
type sample struct {
	name   string
	data   []byte
	books  []byte // the order book file of LOBSTER
	ids    []string
	depth  int // of the resulting books; 0: all
	flow   *replaytest.Flow
	trades int
}

const sampleEvents = 3000

func samples() []*sample {
	return []*sample{sampleITCH(), sampleMBO(), sampleMBP10(), sampleDEEP(), sampleLOBSTER(0), sampleLOBSTER(10)}
}

// fill writes a flow of orders.
func (s *sample) fill(instruments int, write func(i int, e *market.Event, side market.Side)) {
	s.flow = replaytest.NewFlow(9, instruments, opening)
	sides := map[uint64]market.Side{}
	for i := range sampleEvents {
		e := s.flow.Next()
		if e.Kind == market.KindOrderAdd {
			sides[e.OrderID] = e.Side
		}
		if e.Kind == market.KindOrderFill {
			s.trades++
		}
		write(i, &e, sides[e.OrderID])
	}
}

func sampleITCH() *sample {
	s := &sample{name: "ITCH", ids: []string{"SYM0|NASDAQ|24hs", "SYM1|NASDAQ|24hs", "SYM2|NASDAQ|24hs"}}
	var w replaytest.ITCH
	w.System(1, 'O')
	for i := range 3 {
		w.Directory(2, uint16(i+1), replaytest.Symbol(i))
		w.Action(2, uint16(i+1), replaytest.Symbol(i), 'T', "")
	}
	w.System(4, 'S')
	w.System(5, 'Q')
	s.fill(3, func(_ int, e *market.Event, _ market.Side) { w.Order(e, midnight) })
	w.System(40_000*1_000_000_000, 'M')
	s.data = w.Bytes
	return s
}

func dbnHeader(schema uint16) *replaytest.DBN {
	w := &replaytest.DBN{Version: 2}
	w.Header("XNAS.ITCH", schema,
		replaytest.Mapping{Symbol: "SYM0", Number: "100", From: 20240101, To: 20240103},
		replaytest.Mapping{Symbol: "SYM1", Number: "101", From: 20240101, To: 20240103})
	return w
}

func sampleMBO() *sample {
	s := &sample{name: "MBO", ids: []string{"SYM0|XNAS|24hs", "SYM1|XNAS|24hs"}}
	w := dbnHeader(replaytest.SchemaMBO)
	for i := range uint32(2) {
		w.MBO(&replaytest.Record{Instrument: 100 + i, Time: opening, Receive: opening, Action: 'R', Side: 'N', Flags: replaytest.Last})
	}
	s.fill(2, func(i int, e *market.Event, _ market.Side) { w.Order(e, uint32(i)) })
	s.data = w.Bytes
	return s
}

func sampleMBP10() *sample {
	s := &sample{name: "MBP-10", ids: []string{"SYM0|XNAS|24hs", "SYM1|XNAS|24hs"}, depth: 10}
	w := dbnHeader(replaytest.SchemaMBP10)
	s.fill(2, func(_ int, e *market.Event, _ market.Side) {
		r := replaytest.Record{Instrument: 100 + uint32(e.Handle), Time: e.Time, Receive: e.Time, Action: 'A', Flags: replaytest.Last}
		if e.Kind == market.KindOrderFill {
			r.Action, r.Price, r.Size = 'T', replaytest.Nano(e.Price), uint32(e.Size/market.Scale)
		}
		w.Levels(&r, 10, replaytest.Pairs(s.flow.Book(int(e.Handle)))...)
	})
	s.data = w.Bytes
	return s
}

func sampleDEEP() *sample {
	s := &sample{name: "DEEP", ids: []string{"SYM0|IEX|24hs", "SYM1|IEX|24hs"}}
	w := replaytest.IEX{Protocol: replaytest.DEEP}
	c := replaytest.Capture{Nano: true}
	c.Head()
	for i := range 2 {
		w.Directory(opening-1, replaytest.Symbol(i), 1)
	}
	s.fill(2, func(_ int, e *market.Event, side market.Side) {
		w.Order(e, side, s.flow.Book(int(e.Handle)))
		c.Datagram(e.Time, w.Segment(e.Time))
	})
	s.data = c.Bytes
	return s
}

func sampleLOBSTER(depth int) *sample {
	s := &sample{name: fmt.Sprintf("LOBSTER of %d levels", depth), ids: []string{"SYM0|NASDAQ|24hs"}, depth: depth}
	w := replaytest.LOBSTER{Depth: depth}
	s.fill(1, func(_ int, e *market.Event, side market.Side) {
		w.Order(e, side, midnight)
		if depth > 0 {
			w.Book(s.flow.Book(0))
		}
	})
	s.data, s.books = w.Messages, w.Books
	return s
}

// packZstd compresses data with zstd.
func packZstd(t testing.TB, data []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(data, nil)
}

// save writes a sample with a LOBSTER file name; the other formats are detected from the content.
func (s *sample) save(t testing.TB, pack func(testing.TB, []byte) []byte) string {
	t.Helper()
	folder := t.TempDir()
	path := filepath.Join(folder, "SYM0_2024-01-02_34200000_57600000_message_10.csv")
	if pack == nil {
		pack = func(_ testing.TB, data []byte) []byte { return data }
	}
	if err := os.WriteFile(path, pack(t, s.data), 0o600); err != nil {
		t.Fatal(err)
	}
	if s.books != nil {
		if err := os.WriteFile(strings.Replace(path, "message", "orderbook", 1), pack(t, s.books), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// TestFormats checks that every format, compressed or not, is detected from its content and plays
// what was written.
func TestFormats(t *testing.T) {
	for _, s := range samples() {
		for _, packed := range []struct {
			name string
			pack func(testing.TB, []byte) []byte
		}{{"plain", nil}, {"gzip", pack}, {"zstd", packZstd}} {
			t.Run(s.name+" "+packed.name, func(t *testing.T) {
				path := s.save(t, packed.pack)
				source := open(t, path, Config{Speed: -1, FromName: true})
				var ids []string
				for _, in := range source.Instruments() {
					ids = append(ids, in.ID.String())
				}
				slices.Sort(ids)
				if !slices.Equal(ids, s.ids) || source.Instrument().ID.Symbol == "" {
					t.Errorf("instruments %v, want %v", ids, s.ids)
				}
				if read, total := source.Progress(); read != 0 || total != size(t, path) {
					t.Errorf("progress %d of %d before the run", read, total)
				}
				var r feedtest.Recorder
				if err := source.Run(t.Context(), &r); err != nil {
					t.Fatal(err)
				}
				s.compare(t, &r, source.Stats())
				listedThen(t, &r)
				if read, total := source.Progress(); read != total {
					t.Errorf("progress %d of %d after the run", read, total)
				}
			})
		}
	}
}

// listedThen checks that all instruments are listed at the time of the recording and not of the
// replay. Otherwise a journal of the replay would begin on another day and be ahead of the events.
func listedThen(t *testing.T, r *feedtest.Recorder) {
	t.Helper()
	first := r.Events()[0]
	for _, in := range r.Definitions() {
		if in.VirtualClock && (in.Listed == 0 || in.Listed > max(first.Time, first.Receive)) {
			t.Errorf("%s is listed at %d, and the first event is of %d", in.ID, in.Listed, first.Time)
		}
	}
}

func size(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// compare applies the recorded events to books and compares them with the flow's.
func (s *sample) compare(t *testing.T, r *feedtest.Recorder, stats Stats) {
	t.Helper()
	orders, levels := map[string]*market.OrderBook{}, map[string]*market.Book{}
	for _, id := range s.ids {
		orders[id], levels[id] = new(market.OrderBook), new(market.Book)
	}
	trades := 0
	for _, e := range r.Events() {
		id := r.ID(e.Handle).String()
		if e.Kind == market.KindTrade {
			trades++
		}
		if orders[id] == nil {
			continue // the market as a whole
		}
		if err := replaytest.Apply(orders[id], &e); err != nil {
			t.Fatal(err)
		}
		if e.Kind == market.KindSnapshot || e.Kind == market.KindGap {
			orders[id].Reset()
			levels[id].Reset()
		}
		for _, l := range e.Bids {
			levels[id].Set(market.Buy, l)
		}
		for _, l := range e.Asks {
			levels[id].Set(market.Sell, l)
		}
	}
	for _, id := range s.ids {
		got := orders[id].Book()
		if got.Len(market.Buy) == 0 {
			got = levels[id]
		}
		var i int
		if _, err := fmt.Sscanf(id, "SYM%d|", &i); err != nil {
			t.Fatal(err)
		}
		if err := replaytest.Equal(got, s.flow.Book(i), s.depth); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	if trades != s.trades || stats.Trades != s.trades {
		t.Errorf("%d trades, %d counted, want %d", trades, stats.Trades, s.trades)
	}
	if stats.Lines < sampleEvents || stats.Passes != 1 || stats.Gaps != 0 {
		t.Errorf("counted %+v", stats)
	}
}

func TestFormatsConform(t *testing.T) {
	for _, s := range samples() {
		t.Run(s.name, func(t *testing.T) {
			path := s.save(t, nil)
			feedtest.Run(t, func(t *testing.T) feed.Source {
				return open(t, path, Config{Speed: math.Inf(1), FromName: true})
			}, feedtest.Options{Finite: true})
		})
	}
}

// TestFormatsInHub checks that a hub accepts all events and has the same books.
func TestFormatsInHub(t *testing.T) {
	for _, s := range samples() {
		t.Run(s.name, func(t *testing.T) {
			source := open(t, s.save(t, nil), Config{Speed: -1, FromName: true})
			h := hub.New(hub.Config{})
			if err := source.Run(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			if n := source.Stats().Rejected; n != 0 {
				t.Errorf("%d events refused", n)
			}
			for i, text := range s.ids {
				id, err := market.ParseInstrumentID(text)
				if err != nil {
					t.Fatal(err)
				}
				book, err := h.AppendBook(nil, id, hub.Tier{})
				best, ok := s.flow.Book(i).Best(market.Buy)
				if err != nil || !ok || !bytes.Contains(book, fmt.Appendf(nil, `"B":[[%s,%s`, best.Price, best.Size)) {
					t.Errorf("%s: %v: the best bid should be %v: %.200s", text, err, best, book)
				}
			}
		})
	}
}

// TestFormatsPace checks that events come when they are due, at any speed, to the nanosecond of the
// fake clock.
func TestFormatsPace(t *testing.T) {
	for _, s := range samples() {
		path := s.save(t, nil)
		for _, speed := range []float64{1, 10} {
			t.Run(fmt.Sprint(s.name, " ", speed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					source := open(t, path, Config{Speed: speed, FromName: true})
					sink := timing{begun: time.Now()}
					if err := source.Run(t.Context(), &sink); err != nil {
						t.Fatal(err)
					}
					first, newest := int64(0), int64(0)
					for i, e := range sink.Events() {
						at := e.Receive
						if at == 0 {
							at = e.Time
						}
						if first == 0 {
							first = at
						}
						newest = max(newest, at)
						want := time.Duration(float64(newest-first) / speed)
						if late := sink.at[i] - want; late < 0 || late > time.Microsecond {
							t.Fatalf("event %d after %v, want %v", i, sink.at[i], want)
						}
					}
				})
			})
		}
	}
}

// TestFormatsLoop checks that the second pass equals the first, after gaps.
func TestFormatsLoop(t *testing.T) {
	for _, s := range samples() {
		t.Run(s.name, func(t *testing.T) {
			source := open(t, s.save(t, nil), Config{Speed: -1, Loop: true, FromName: true})
			once := open(t, s.save(t, nil), Config{Speed: -1, FromName: true})
			var r, r1 feedtest.Recorder
			if err := once.Run(t.Context(), &r1); err != nil {
				t.Fatal(err)
			}
			first := r1.Events()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- source.Run(ctx, &r) }()
			err := r.Wait(t.Context(), func(events []market.Event) bool { return len(events) >= 2*len(first)+2*len(s.ids) })
			cancel()
			if err := errors.Join(err, <-ended); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			events := r.Events()[len(first):]
			for range s.ids { // a gap of each instrument, and the empty book of those that begin with one
				e, def := events[0], r.Definitions()[slices.IndexFunc(r.Definitions(), func(in market.Instrument) bool { return in.ID == r.ID(events[0].Handle) })]
				if e.Kind != market.KindGap || e.Reason != "replay_restarted" {
					t.Errorf("not a gap: %+v", e)
				}
				if events = events[1:]; def.StartsEmpty {
					if e := events[0]; e.Kind != market.KindSnapshot || e.Time != def.Listed || len(e.Bids)+len(e.Asks) > 0 {
						t.Errorf("not an empty book at %d: %+v", def.Listed, e)
					}
					events = events[1:]
				}
			}
			for i := range min(len(first), len(events)) {
				if fmt.Sprint(events[i]) != fmt.Sprint(first[i]) {
					t.Fatalf("event %d of the second time is %+v, of the first %+v", i, events[i], first[i])
				}
			}
		})
	}
}

// TestFormatsCutOff checks that the complete records of a truncated compressed file are played.
func TestFormatsCutOff(t *testing.T) {
	for _, s := range samples() {
		for name, pack := range map[string]func(testing.TB, []byte) []byte{"gzip": pack, "zstd": packZstd} {
			t.Run(s.name+" "+name, func(t *testing.T) {
				path := s.save(t, pack)
				packed := read(t, path)
				for _, n := range []int{len(packed) - 3, len(packed) * 2 / 3} {
					if err := os.WriteFile(path, packed[:n], 0o600); err != nil {
						t.Fatal(err)
					}
					source, err := Open(path, Config{Speed: -1, FromName: true})
					var r feedtest.Recorder
					if err == nil {
						err = source.Run(t.Context(), &r)
					}
					bad, ok := errors.AsType[*Error](err)
					if !ok || !errors.Is(err, io.ErrUnexpectedEOF) || bad.File != path || !bad.Final() || !strings.Contains(err.Error(), name+" file is cut off") {
						t.Errorf("error %v", err)
					}
				}
			})
		}
	}
}

// TestFormatsDamage checks that damage in the middle of a file is reported with its position, after
// what comes before it was played.
func TestFormatsDamage(t *testing.T) {
	for _, tt := range []struct {
		s    *sample
		want string
	}{
		{sampleITCH(), "offset %d: "}, {sampleMBO(), "offset %d: "}, {sampleDEEP(), "offset %d: "}, {sampleLOBSTER(0), "offset %d: "},
	} {
		t.Run(tt.s.name, func(t *testing.T) {
			at := len(tt.s.data) / 2
			damaged := slices.Clone(tt.s.data)
			copy(damaged[at:], bytes.Repeat([]byte{0xff}, 200))
			tt.s.data = damaged
			path := tt.s.save(t, packZstd)
			source := open(t, path, Config{Speed: -1, FromName: true})
			var r feedtest.Recorder
			err := source.Run(t.Context(), &r)
			bad, ok := errors.AsType[*Error](err)
			if !ok || bad.Offset < int64(at)-200 || bad.Offset > int64(at)+200 || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), fmt.Sprintf(tt.want, bad.Offset)) {
				t.Fatalf("damage at %d reported as %v", at, err)
			}
			if n := len(r.Events()); n < sampleEvents/3 {
				t.Errorf("%d events before it", n)
			}
		})
	}
}

func TestFormatsOptions(t *testing.T) {
	itch, books := sampleITCH(), sampleLOBSTER(2)
	path := itch.save(t, nil)
	source := open(t, path, Config{Speed: -1, Date: date, Symbols: []string{"SYM1", "SYM2|NASDAQ|24hs"}})
	var r feedtest.Recorder
	if err := source.Run(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Definitions()) != 3 || source.Stats().Skipped[decode.Filtered] == 0 || len(source.Instruments()) != 2 {
		t.Errorf("defined %v, counted %+v", r.Definitions(), source.Stats())
	}
	last := r.Events()[len(r.Events())-1]
	if last.Time != midnight+40_000*1_000_000_000 || last.Phase != market.PostClose {
		t.Errorf("%+v", last)
	}
	plain := filepath.Join(t.TempDir(), "tape")
	for _, tt := range []struct {
		name   string
		data   []byte
		config Config
		want   string
	}{
		{"no date", itch.data, Config{}, "NASDAQ ITCH: the file does not contain its date"},
		{"no date in the name", itch.data, Config{FromName: true}, "NASDAQ ITCH: the file does not contain its date"},
		{"bad date", itch.data, Config{Date: "02.01.2024"}, `date "02.01.2024"`},
		{"date of another age", itch.data, Config{Date: "0024-01-02"}, "the year must be from 1990 to 2200"},
		{"no symbol", books.data, Config{Date: date}, "LOBSTER: the file does not contain its symbol"},
		{"several symbols", books.data, Config{Date: date, Symbols: []string{"A", "B"}}, "LOBSTER: the file does not contain its symbol"},
		{"no date for a symbol", books.data, Config{Symbols: []string{"A"}}, "LOBSTER: the file does not contain its date"},
		{"binary", []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, Config{}, "other formats are"},
		{"another DBN", []byte("DBN\x09\x00\x00\x00\x00"), Config{}, "DBN version 9"},
		{"zstd that asks for 2 TiB", []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0xf8, 1, 0, 0}, Config{}, "the zstd file is damaged"},
		{"half a zstd header", []byte{0x28, 0xb5, 0x2f, 0xfd, 0}, Config{}, "the zstd file is cut off"},
		{"capture of nothing", sampleDEEP().data[:24], Config{}, "no segment of IEX-TP"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.WriteFile(plain, tt.data, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Open(plain, tt.config)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), plain) {
				t.Errorf("Open returned %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := Open(t.TempDir(), Config{}); err == nil || !strings.Contains(err.Error(), "unknown recording format; ") {
		t.Errorf("a folder: %v", err)
	}
}

func TestDateOfName(t *testing.T) {
	for name, want := range map[string]string{
		"AAPL_2012-06-21_34200000_57600000_message_10.csv": "2012-06-21",
		"01302019.NASDAQ_ITCH50.gz":                        "01302019",
		"S013019-v50.txt.gz":                               "013019",
		"data_feeds_20180529_20180529_IEXTP1_TOPS1.6.pcap": "20180529",
		"20241301.itch":                                    "",
		"tape":                                             "",
		"1234567890":                                       "",
	} {
		if got, _ := dateOf(name); got != want {
			t.Errorf("%s is of %q, want %q", name, got, want)
		}
	}
}

// TestOrderBookFile checks that the order book file must match the message file.
func TestOrderBookFile(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(b []byte) []byte
		want   string
	}{
		{"shorter", func(b []byte) []byte { return b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1] }, "ends before the message file"},
		{"longer", func(b []byte) []byte { return append(b, "1,1,1,1\n"...) }, "is longer than the message file"},
		{"without a last line's end", func(b []byte) []byte { return b[:len(b)-1] }, ""},
		{"damaged", func(b []byte) []byte { b[len(b)/2] = 'x'; return b }, "not a line of ask price"},
		{"empty", func([]byte) []byte { return nil }, "ends before the message file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := sampleLOBSTER(3)
			path := s.save(t, nil)
			books := strings.Replace(path, "message", "orderbook", 1)
			if err := os.WriteFile(books, tt.change(s.books), 0o600); err != nil {
				t.Fatal(err)
			}
			source := open(t, path, Config{Speed: -1, FromName: true})
			var r feedtest.Recorder
			err := source.Run(t.Context(), &r)
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			bad, ok := errors.AsType[*Error](err)
			if !ok || bad.File != books || bad.Line == 0 || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in %s", err, tt.want, books)
			}
		})
	}
}

// TestProgress checks that the progress rises and may be read while a recording is played.
func TestProgress(t *testing.T) {
	s := sampleITCH()
	source := open(t, s.save(t, pack), Config{Speed: -1, FromName: true})
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		before := int64(0)
		for {
			read, total := source.Progress()
			if read < before || read > total {
				t.Errorf("progress %d of %d after %d", read, total, before)
			}
			before = read
			select {
			case <-done:
				return
			default:
			}
		}
	})
	var sink feedtest.CountSink
	err := source.Run(t.Context(), &sink)
	close(done)
	wg.Wait()
	if err != nil {
		t.Error(err)
	}
}

// BenchmarkFormats plays whole files from the disk to a sink that counts.
func BenchmarkFormats(b *testing.B) {
	for _, s := range samples() {
		b.Run(s.name, func(b *testing.B) {
			source := open(b, s.save(b, packZstd), Config{Speed: -1, FromName: true})
			b.ReportAllocs()
			for b.Loop() {
				if err := source.Run(b.Context(), new(feedtest.CountSink)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(source.Stats().Lines)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
