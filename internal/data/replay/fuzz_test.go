package replay

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/ruedahq/rueda/market"
)

// FuzzReplayLine checks that any line is a message or an error with a position inside the line. An
// accepted line is valid JSON, and its events follow the contract.
func FuzzReplayLine(f *testing.F) {
	for _, file := range []string{"testdata/futures.jsonl", "testdata/spot.jsonl"} {
		for line := range bytes.Lines(read(f, file)) {
			f.Add(bytes.TrimSuffix(line, []byte("\n")))
		}
	}
	f.Add([]byte(`1723161255020000000 {"x":["\u00e9\\",-1.5e+3,true,false,null,{},[]],"stream":"a@trade"}`))
	var fs fields // reused as in a player, to check that nothing carries over to the next line
	f.Fuzz(func(t *testing.T, line []byte) {
		if err := fs.read(line); err != nil {
			if bad, ok := err.(*scanError); !ok || bad.at < 0 || bad.at > len(line) || bad.what == "" {
				t.Fatalf("%q: fault %#v", line, err)
			}
			return
		}
		_, text, _ := bytes.Cut(line, []byte(" "))
		if !json.Valid(text) {
			t.Fatalf("%q: taken, and is not JSON", text)
		}
		k, err := fs.kind()
		if err != nil || k == other {
			return
		}
		p := player{
			source: &binance{shared: &shared{config: Config{Logger: slog.New(slog.DiscardHandler)}}, futures: fs.futures(k)},
			fields: fs,
			book:   splicer{futures: fs.futures(k)},
		}
		if _, err := p.message(k); err != nil {
			return
		}
		for _, e := range p.batch {
			for _, levels := range [...][]market.Level{e.Bids, e.Asks} {
				for _, l := range levels {
					if !l.Price.Exact() || !l.Size.Exact() || l.Size == 0 && e.Kind != market.KindUpdate {
						t.Fatalf("%q: level %v", line, l)
					}
				}
			}
			if e.Kind == market.KindTrade && (e.Size <= 0 || e.TradeID == "") || e.Time < 0 || e.Receive <= 0 {
				t.Fatalf("%q: event %+v", line, e)
			}
		}
	})
}
