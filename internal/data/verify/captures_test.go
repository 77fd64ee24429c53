package verify

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/internal/data/replay"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// capture returns the path of a recorded capture, or skips the test if there is none.
func capture(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("RUEDA_TAPES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "data")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Skip("recorded tapes not found: set RUEDA_TAPES to the directory that holds " + name)
	}
	return path
}

// TestCapturesE2E checks that both captures give the results of a reference script: every book
// equals the newest quote that is not ahead of it, without gaps and crossed books.
func TestCapturesE2E(t *testing.T) {
	for _, tt := range []struct {
		file                           string
		trades, quotes, applied, sames uint64
	}{
		{"binance_usdm_btcusdt_20240808.jsonl.gz", 21_313, 66_089, 6_547, 629},
		{"binance_spot_btcusdt_20240808.jsonl.gz", 9_757, 28_040, 3_449, 564},
	} {
		t.Run(tt.file, func(t *testing.T) {
			path := capture(t, tt.file)
			source, err := replay.Open(path, replay.Config{Speed: -1})
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			s := NewSink(Config{UpdateIDs: true})
			if err := source.Run(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			r := s.Report()
			t.Logf("figure: %s: verified in %v", tt.file, time.Since(begun).Round(time.Millisecond))
			r.Describe(tt.file, "capture")
			if err := r.WriteText(t.Output()); err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]uint64{"trades": tt.trades, "quotes": tt.quotes, "book changes applied": tt.applied, "gaps": 0, sameID: tt.sames} {
				if got := r.Figure(name); got != want {
					t.Errorf("%s: %d, want %d", name, got, want)
				}
			}
			if q := r.Result(Quote); q.Judged != tt.applied || q.Wrong != 0 || q.Unjudged != 0 {
				t.Errorf("quotes: %d judged, %d wrong, %d unjudged", q.Judged, q.Wrong, q.Unjudged)
			}
			if c := r.Result(Crossed); c.Judged != tt.applied+1 || c.Wrong != 0 {
				t.Errorf("crossed: %d judged, %d wrong", c.Judged, c.Wrong)
			}
			if r.Wrong() != 0 {
				t.Errorf("%d wrong", r.Wrong())
			}
		})
	}
}

// both is a sink of two sinks.
type both [2]feed.Sink

func (b both) Define(in market.Instrument) (market.Handle, error) {
	first, err := b[0].Define(in)
	second, err2 := b[1].Define(in)
	if first != second {
		return 0, errors.New("two handles")
	}
	return first, errors.Join(err, err2)
}

func (b both) Publish(events []market.Event) error {
	return errors.Join(b[0].Publish(events), b[1].Publish(events))
}

// TestCapturesPlayedE2E plays both captures and checks that nothing is wrong with the journal and
// with a recording of the stream.
func TestCapturesPlayedE2E(t *testing.T) {
	for _, file := range []string{"binance_usdm_btcusdt_20240808.jsonl.gz", "binance_spot_btcusdt_20240808.jsonl.gz"} {
		t.Run(file, func(t *testing.T) {
			source, err := replay.Open(capture(t, file), replay.Config{Speed: -1})
			if err != nil {
				t.Fatal(err)
			}
			folder := t.TempDir()
			j, err := journal.Open(t.Context(), journal.Config{Folder: folder, BootID: "boot"})
			if err != nil {
				t.Fatal(err)
			}
			h := hub.New(hub.Config{Journal: j})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- h.Run(ctx) }()
			r := newRecorder(t, time.Unix(0, source.Instrument().Listed), 1, source.Instrument().ID.String())
			err = source.Run(t.Context(), both{h, r})
			cancel()
			<-ended // of a cancelled context
			h.Commit()
			if err = errors.Join(err, j.Close()); err != nil {
				t.Fatal(err)
			}
			stored, err := Journal(t.Context(), folder, 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range []*Report{stored, verified(t, r.end().bytes())} {
				if r.Wrong() > 0 || r.Result(Crossed).Judged < 3000 || r.Figure("trades") < 9000 {
					t.Errorf("%s", text(r))
				}
			}
		})
	}
}
