package replay

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/feed/feedtest"
	recorder "github.com/ruedahq/rueda/internal/data/recording"
	"github.com/ruedahq/rueda/internal/data/replay/replaytest"
)

// mutants is the number of damaged files of each format, and soakMutants that with RUEDA_SOAK.
const (
	mutants     = 200
	soakMutants = 10_000
)

// mutantBytes is the length of a file that is damaged, and mutantMemory limits what reading it
// allocates.
const (
	mutantBytes  = 12 << 10
	mutantMemory = 24 << 20
)

// shortRecording returns a recording of rueda record with messages of all kinds.
func shortRecording() []byte {
	var b strings.Builder
	b.WriteString(`{"rueda":"recording","version":1,"began":"2024-01-02T14:30:00Z","epoch":"e7k2","channels":["trades","quotes","order_book","status"],"depth":0,"ids":["SYM0|BYMA|24hs"],"instruments":[{"instrument":"SYM0|BYMA|24hs","price_decimals":2,"size_decimals":0}]}` + "\n")
	at := int64(opening)
	line := func(format string, args ...any) {
		at += 1_000_000
		fmt.Fprintf(&b, "%d ", at)
		fmt.Fprintf(&b, format+"\n", args...)
	}
	head := func(n int) string {
		return fmt.Sprintf(`"S":"SYM0","I":"SYM0|BYMA|24hs","N":%d,"T":"2024-01-02T14:30:00.%09dZ"`, n, n)
	}
	line(`{"type":"Subscription","code":200,"id":1,"epoch":"e7k2"}`)
	line(`{"type":"H",%s,"R":true,"E":"open"}`, head(1))
	line(`{"type":"O",%s,"R":true,"DL":0,"B":[[7049.5,300]],"A":[[7050,1200]],"K":1}`, head(1))
	for n := 2; b.Len() < mutantBytes; n++ {
		line(`{"type":"O",%s,"L":%d,"B":[[%d.5,%d]],"K":7}`, head(n), n-1, 7000+n%40, n%5)
		line(`{"type":"T",%s,"X":"%d","P":7050,"Z":%d,"G":"B","C":["block"]}`, head(n-1), n, n)
		line(`{"type":"Q",%s,"BP":7049,"BZ":%d,"AP":7050,"AZ":3}`, head(n-1), n)
		if n%20 == 0 {
			line(`{"recording":"disconnected","reason":"connection broken"}`)
			line(`{"recording":"connected"}`)
			line(`{"type":"O",%s,"R":true,"DL":0,"B":[[7049.5,300]],"A":[[7050,1200]],"K":1}`, head(n))
		}
	}
	return []byte(b.String())
}

// sampleTOPS returns a capture of quotes, trades and statuses.
func sampleTOPS() *sample {
	w := replaytest.IEX{Protocol: replaytest.TOPS, Session: 1}
	c := replaytest.Capture{Nano: true, Blocks: true}
	c.Head()
	for i := int64(0); len(c.Bytes) < mutantBytes; i++ {
		at := opening + i*1_000_000
		symbol := replaytest.Symbol(int(i % 3))
		w.Quote(at, symbol, uint32(i%4)*100, 100_000+i, 100_100+i, 300)
		w.Trade(at, symbol, 'T', byte(i%32)<<3, 50, 100_050, uint64(i+1))
		switch i % 10 {
		case 1:
			w.Status(at, symbol, "THPO"[i%4], "T1")
		case 2:
			w.System(at, "OSRMEC"[i%6])
		case 3:
			w.Official(at, symbol, 'M', 100_000)
		}
		c.Datagram(at, w.Segment(at))
	}
	return &sample{name: "TOPS", data: c.Bytes}
}

// TestMutatedFilesLong checks that damaged files of every format end without a panic, with an error
// that names the file and the place, and in bounded memory.
func TestMutatedFilesLong(t *testing.T) {
	count := mutants
	if os.Getenv("RUEDA_SOAK") != "" {
		count = soakMutants
	}
	files := append(samples(), sampleTOPS(), &sample{name: "recording", data: shortRecording()},
		&sample{name: "Binance spot", data: read(t, "testdata/spot.jsonl")}, &sample{name: "Binance futures", data: read(t, "testdata/futures.jsonl")})
	for _, s := range files {
		t.Run(s.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 9))
			s.shorten(t)
			failed, most := 0, uint64(0)
			for range count {
				bad := *s
				if bad.data = replaytest.Mutate(rng, s.data); s.books != nil && rng.IntN(2) == 0 {
					bad.books = replaytest.Mutate(rng, s.books)
				}
				used, err := playMutant(t, &bad)
				if most = max(most, used); used > mutantMemory {
					t.Errorf("%d MiB were allocated for %q", used>>20, bad.data)
				}
				if err != nil {
					failed++
					checkPlace(t, &bad, err)
				}
			}
			t.Logf("figure: %d of %d mutants of %s ended with an error; at most %d KiB were allocated", failed, count, s.name, most>>10)
			if failed < count/20 || failed == count {
				t.Errorf("%d of %d ended with an error", failed, count)
			}
		})
	}
}

// shorten cuts a sample after a complete record.
func (s *sample) shorten(t *testing.T) {
	t.Helper()
	if s.books != nil {
		const lines = 100
		s.data = bytes.Join(bytes.SplitAfterN(s.data, []byte("\n"), lines+1)[:lines], nil)
		s.books = bytes.Join(bytes.SplitAfterN(s.books, []byte("\n"), lines+1)[:lines], nil)
		return
	}
	whole := s.data
	for n := min(len(whole), mutantBytes); n > mutantBytes-400 || n == len(whole); n-- {
		s.data = whole[:n]
		if _, err := playMutant(t, s); err == nil {
			return
		}
	}
	t.Fatal("no record ends in the last 400 bytes")
}

// playMutant plays a file. It returns the bytes that were allocated and its error.
func playMutant(t *testing.T, s *sample) (used uint64, err error) {
	path := s.save(t, nil)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	source, err := Open(path, Config{Speed: -1, FromName: true})
	if err == nil {
		var r feedtest.Recorder
		err = source.Run(t.Context(), &r)
		if stats := source.Stats(); err == nil && stats.Lines != stats.Used+sum(&stats) {
			t.Errorf("%d records, %d used, %s skipped", stats.Lines, stats.Used, stats.Skipped.String())
		}
	}
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, err
}

func sum(s *Stats) (n int) {
	for _, k := range s.Skipped {
		n += k
	}
	return n
}

// checkPlace checks that an error names the place of the damage.
func checkPlace(t *testing.T, s *sample, err error) {
	t.Helper()
	size := int64(max(len(s.data), len(s.books)))
	if bad, ok := errors.AsType[*Error](err); ok {
		if bad.Offset < 0 || bad.Offset > size+1 || !strings.Contains(err.Error(), "offset") {
			t.Errorf("%v: offset %d in a file of %d bytes", err, bad.Offset, size)
		}
		return
	}
	if bad, ok := errors.AsType[*recorder.Error](err); ok {
		if bad.Line < 1 {
			t.Error(err)
		}
		return
	}
	for _, known := range []string{"the file is empty", "unknown recording format", "message in the first 100 lines", "captures of Binance have lines"} {
		if strings.Contains(err.Error(), known) {
			return
		}
	}
	t.Errorf("the error names no place: %v", err)
}
