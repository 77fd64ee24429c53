package verify

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed/replay"
)

// capture returns the path of a recorded capture, or skips the test if there is none.
func capture(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("RUEDA_TAPES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
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
