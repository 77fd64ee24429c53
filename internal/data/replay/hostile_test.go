package replay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/data/replay/replaytest"
	"github.com/ruedahq/rueda/market"
)

// definitions is a sink that counts the instruments.
type definitions int

func (d *definitions) Define(market.Instrument) (market.Handle, error) {
	*d++
	return market.Handle(*d - 1), nil
}

func (*definitions) Publish([]market.Event) error { return nil }

// TestThreat48Instruments plays a file with another instrument in each record. Only so many are
// played, unless symbols are chosen.
func TestThreat48Instruments(t *testing.T) {
	w := dbnHeader(replaytest.SchemaTrades)
	for i := range uint32(maxInstruments + 1000) {
		w.Levels(&replaytest.Record{Instrument: 1_000_000 + i, Time: opening, Receive: opening, Action: 'T', Side: 'B', Price: 1e9, Size: 1}, 0)
	}
	path := filepath.Join(t.TempDir(), "many.dbn")
	if err := os.WriteFile(path, w.Bytes, 0o600); err != nil {
		t.Fatal(err)
	}
	var all definitions
	err := open(t, path, Config{Speed: -1}).Run(t.Context(), &all)
	if err == nil || !strings.Contains(err.Error(), path+": offset ") || !strings.Contains(err.Error(), "more than 200000 instruments") || all != maxInstruments {
		t.Errorf("%v after %d instruments", err, all)
	}
	var one definitions
	if err := open(t, path, Config{Speed: -1, Symbols: []string{"1000001"}}).Run(t.Context(), &one); err != nil || one != 1 {
		t.Errorf("of one symbol: %v, %d instruments", err, one)
	}
}

// lateSymbol is a capture whose messages never name their symbol. It counts what is read.
type lateSymbol struct {
	line string
	at   int
	read int
}

func (l *lateSymbol) Read(p []byte) (int, error) {
	n := copy(p, l.line[l.at:])
	l.at = (l.at + n) % len(l.line)
	l.read += n
	return n, nil
}

// TestThreat48Pipe checks that little of a pipe is kept until its symbol is known.
func TestThreat48Pipe(t *testing.T) {
	l := &lateSymbol{line: `1723161255000000000 {"stream":"btcusdt@kline","data":{}}` + strings.Repeat(" ", 1<<20) + "\n"}
	_, err := Open("capture", Config{Input: l})
	if err == nil || !strings.Contains(err.Error(), "replay capture: no trade, aggTrade, bookTicker or depth message in the first 4 lines") || l.read > 8<<20 {
		t.Errorf("%v after %d bytes", err, l.read)
	}
}
