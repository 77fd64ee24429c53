package sim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/feed/sim/facts"
	"github.com/ruedahq/rueda/internal/data/replay"
)

// TestCaptureFacts computes the facts of the public captures and compares them with the manual.
func TestCaptureFacts(t *testing.T) {
	dir := os.Getenv("RUEDA_TAPES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	var rows []facts.Row
	for _, name := range []string{"binance_usdm_btcusdt_20240808.jsonl.gz", "binance_spot_btcusdt_20240808.jsonl.gz"} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			t.Skip("recorded tapes not found: set RUEDA_TAPES to the directory that holds " + name)
		}
		source, err := replay.Open(path, replay.Config{Speed: -1})
		if err != nil {
			t.Fatal(err)
		}
		c := facts.New()
		if err := source.Run(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, c.Table().Instruments...)
	}
	if len(rows) != 2 {
		t.Fatalf("%d instruments", len(rows))
	}
	var b strings.Builder
	b.WriteString("| fact | futures, computed | spot, computed |\n|---|---|---|\n")
	for _, f := range facts.Ranged() {
		if x, y := f.Of(&rows[0]), f.Of(&rows[1]); x.Known() && y.Known() {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", f.Name, figure(x), figure(y))
		}
	}
	show(t, "captures", b.String())
}
