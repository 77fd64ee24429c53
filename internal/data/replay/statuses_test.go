package replay_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/internal/data/replay"
	"github.com/ruedahq/rueda/internal/data/replay/replaytest"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// at returns a time some seconds after 14:00 UTC on 2019-01-30, which is 9:00 in New York.
func at(second int64) int64 { return (1548806400 + 14*3600 + second) * 1e9 }

// sinceMidnight returns the same time in New York.
func sinceMidnight(second int64) int64 { return (9*3600 + second) * 1e9 }

func iexCapture(protocol uint16, write func(w *replaytest.IEX)) []byte {
	c, w := replaytest.Capture{Nano: true}, replaytest.IEX{Protocol: protocol}
	c.Head()
	write(&w)
	c.Datagram(at(9), w.Segment(at(9)))
	return c.Bytes
}

// topsFile has the stocks A, with three statuses, and B without one.
func topsFile() []byte {
	return iexCapture(replaytest.TOPS, func(w *replaytest.IEX) {
		w.Quote(at(1), "A", 100, 10_000, 10_100, 100)
		w.System(at(1), 'S')
		w.Operational(at(2), "A", 'N') // it is not halted, and still unknown
		w.Status(at(3), "A", 'T', "")
		w.Status(at(4), "A", 'H', "T1")
		w.Status(at(5), "A", 'T', "")
		w.Trade(at(6), "B", 'T', 0, 100, 10_000, 1)
	})
}

// deepFile has a stock whose halt ends before its first status of all markets.
func deepFile() []byte {
	return iexCapture(replaytest.DEEP, func(w *replaytest.IEX) {
		w.Level(at(1), "A", '8', 1, 100, 10_000)
		w.Operational(at(2), "A", 'O')
		w.Operational(at(3), "A", 'N')
		w.Status(at(4), "A", 'O', "")
	})
}

// itchFile is a day, or a part of one.
func itchFile(first byte) []byte {
	var w replaytest.ITCH
	w.System(sinceMidnight(1), first)
	w.Directory(sinceMidnight(1), 7, "A")
	w.Add(sinceMidnight(1), 7, 1, 'B', 100, "A", 100_000, "")
	w.Directory(sinceMidnight(1), 8, "B")
	w.Halt(sinceMidnight(2), 8, "B", 'Q', 'T')
	w.Action(sinceMidnight(3), 7, "A", 'T', "")
	w.Action(sinceMidnight(4), 7, "A", 'H', "T1")
	w.Halt(sinceMidnight(5), 8, "B", 'Q', 'H')
	w.Halt(sinceMidnight(6), 8, "B", 'Q', 'T')
	return w.Bytes
}

// mboFile is a file of MBO, with the records of status that live data has.
func mboFile(statuses bool) []byte {
	w := &replaytest.DBN{Version: 3}
	w.Header("XNAS.ITCH", replaytest.SchemaMBO, replaytest.Mapping{Symbol: "A", Number: "7", From: 20190130, To: 20190131})
	record := func(second int64) *replaytest.Record {
		return &replaytest.Record{Instrument: 7, Time: at(second), Receive: at(second), Action: 'R', Side: 'N', Flags: replaytest.Last}
	}
	w.MBO(record(1))
	if statuses {
		w.Status(record(2), 1, 1)
		w.Status(record(3), 7, 0)
	}
	w.MBO(record(4))
	return w.Bytes
}

func lobsterFile() []byte {
	var w replaytest.LOBSTER
	w.Line(sinceMidnight(1), 1, 5, 100, 100_000, 1)
	w.Line(sinceMidnight(2), 7, 0, 0, -1, -1)
	w.Line(sinceMidnight(3), 7, 0, 0, 1, -1)
	return w.Messages
}

func binanceFile() []byte {
	var w replaytest.Binance
	w.Trade(at(1), at(1)/1e6, 5, "100", "1", false)
	return w.Bytes
}

// recordingFile is a recording of rueda record. defined has more members of the definition.
func recordingFile(channels, defined string, lines ...string) []byte {
	text := fmt.Sprintf(`{"rueda":"recording","version":1,"began":"2019-01-30T14:00:00Z","channels":[%s],"ids":["A|X|CI"],"instruments":[{"instrument":"A|X|CI","price_decimals":2,"size_decimals":0%s}]}`, channels, defined) + "\n"
	for i, l := range append(lines, `"type":"T","N":1,"P":1,"Z":1`) {
		text += fmt.Sprintf(`%d {"S":"A","I":"A|X|CI","T":"2019-01-30T14:00:%02d.000000000Z",%s}`+"\n", at(int64(i+1)), i+1, l)
	}
	return []byte(text)
}

// TestStatuses checks which statuses a client gets from each format, in which order: unknown until
// a source that states statuses has stated one, and then each status that is stated, once. A status
// is the symbol, N, the phase with its reason, and the second of its T after 14:00.
func TestStatuses(t *testing.T) {
	const both = `"trades","status"`
	itch := "A 1 unknown 01; A 2 open 03; A 3 halt news_pending 04; B 1 unknown 01; B 2 halt operational_halt 05; B 3 unknown 06"
	for _, tc := range []struct {
		name string
		data []byte
		want string
	}{
		{"tops.pcap", topsFile(), "* 1 pre_open 01; A 1 unknown 01; A 2 open 03; A 3 halt news_pending 04; A 4 open 05; B 1 unknown 01"},
		{"deep.pcap", deepFile(), "A 1 unknown 01; A 2 halt operational_halt 02; A 3 unknown 03; A 4 auction 04"},
		{"day-01302019.itch", itchFile('O'), itch},
		{"part-01302019.itch", itchFile('S'), "* 1 pre_open 01; " + itch},
		{"mbo.dbn", mboFile(false), "A 1 unknown 01"},
		{"mbo-with-status.dbn", mboFile(true), "A 1 unknown 01; A 2 pre_open scheduled 02; A 3 open 03"},
		{"A_2019-01-30_message.csv", lobsterFile(), "A 1 open 01; A 2 halt trading_halt 02; A 3 open 03"},
		{"binance.jsonl", binanceFile(), "BTCUSDT 1 open 01"},
		{"status.jsonl", recordingFile(both, `,"status":"open"`, `"type":"H","N":4,"R":true,"E":"open"`, `"type":"H","N":5,"E":"halt"`), "A 1 open 01; A 2 halt 02"},
		{"status-stated-later.jsonl", recordingFile(both, "", `"type":"H","N":4,"R":true,"E":"unknown"`, `"type":"H","N":5,"E":"open"`), "A 1 unknown 01; A 2 open 02"},
		{"status-not-stated.jsonl", recordingFile(both, ""), "A 1 unknown 01"},
		{"status-not-recorded.jsonl", recordingFile(`"trades"`, `,"status":"halt"`), "A 1 open 01"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path, folder := filepath.Join(t.TempDir(), tc.name), t.TempDir()
			if err := os.WriteFile(path, tc.data, 0o600); err != nil {
				t.Fatal(err)
			}
			writeJournal(t, folder, openNamed(t, path))
			for _, path := range []string{path, folder} {
				if got := strings.Join(clientStatuses(t, openNamed(t, path)), "; "); got != tc.want {
					t.Errorf("of %s: %s, want %s", path, got, tc.want)
				}
			}
		})
	}
}

// TestStatusBeforeTheRows checks the status of a journal whose day with the status has expired:
// unknown up to the checkpoint that has it.
func TestStatusBeforeTheRows(t *testing.T) {
	text := recordingFile(`"trades","status"`, `,"status":"open"`, `"type":"H","N":5,"E":"halt"`)
	text = fmt.Appendf(text, `%d {"S":"A","I":"A|X|CI","T":"2019-01-31T14:00:00.000000000Z","type":"T","N":2,"P":1,"Z":1}`+"\n", at(86_400))
	path, folder := filepath.Join(t.TempDir(), "days.jsonl"), t.TempDir()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	writeJournal(t, folder, openNamed(t, path))
	if got := strings.Join(clientStatuses(t, openNamed(t, folder)), "; "); got != "A 1 open 01; A 2 halt 01" {
		t.Fatalf("of both days: %s", got)
	}
	if err := os.RemoveAll(filepath.Join(folder, "2019-01-30")); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(clientStatuses(t, openNamed(t, folder)), "; "); !strings.HasPrefix(got, "A 1 unknown 00; A 2 halt ") {
		t.Errorf("of the second day: %s", got)
	}
}

// openNamed opens a recording whose name may have its date and its symbol.
func openNamed(t *testing.T, path string) *replay.Source {
	t.Helper()
	s, err := replay.Open(path, replay.Config{Speed: -1, FromName: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// readingSink lets a client read after each call.
type readingSink struct {
	feed.Sink
	read func()
}

func (s *readingSink) Define(in market.Instrument) (market.Handle, error) {
	defer s.read()
	return s.Sink.Define(in)
}

func (s *readingSink) Publish(events []market.Event) error {
	defer s.read()
	return s.Sink.Publish(events)
}

// clientStatuses plays a source and returns the statuses that a client of all markets gets, sorted
// by symbol.
func clientStatuses(t *testing.T, source *replay.Source) (list []string) {
	t.Helper()
	h := hub.New(hub.Config{})
	sh := subscription.NewShard(h, func(bool) {})
	c := streamtest.NewClient(t, sh)
	streamtest.Subscribe(t, c.Sub, wire.Status, "*|*|*")
	read := func() {
		h.Commit()
		streamtest.Turn(sh)
		for _, m := range c.Read(1<<20, false) {
			if symbol, _, _ := strings.Cut(m.I, "|"); m.Type == "H" {
				list = append(list, strings.Join(strings.Fields(fmt.Sprint(symbol, " ", m.N, " ", m.E, " ", m.Y, " ", m.T[17:19])), " "))
			}
		}
	}
	if err := source.Run(t.Context(), &readingSink{h, read}); err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(list, func(a, b string) int { return strings.Compare(a[:1], b[:1]) })
	return list
}
