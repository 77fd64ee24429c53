package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/ruedatest"
	"github.com/ruedahq/rueda/wire"
)

func TestMain(m *testing.M) { os.Exit(openapitest.Main(m.Run)) }

// output is a Writer that calls a function for each line.
type output struct {
	bytes.Buffer
	on func(line string)
}

func (o *output) Write(p []byte) (int, error) {
	o.on(string(p))
	return o.Buffer.Write(p)
}

// TestFollow checks what the program prints about a trade, a book, an unknown instrument and wrong
// credentials.
func TestFollow(t *testing.T) {
	const ggal = "GGAL|BYMA|24hs"
	s := ruedatest.Start(t, ruedatest.Config{})
	s.Define(market.Instrument{ID: market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "24hs"}, PriceDecimals: 2})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var publish sync.Once
	left := 2 // a trade and a book, in any order
	out := &output{on: func(line string) {
		switch {
		case strings.HasPrefix(line, "stream live"):
			publish.Do(func() {
				s.Trade(ggal, "7050", "10")
				s.Book(ggal, "7049.5", "300", "7050", "1200")
			})
		case strings.HasPrefix(line, "book"), strings.HasPrefix(line, "trade"):
			if left--; left == 0 {
				cancel()
			}
		}
	}}
	if err := follow(ctx, out, s.URL, s.Username, s.Password, ggal); err != nil {
		t.Error(err)
	}
	for _, line := range []string{"stream connecting <nil>\n", "trade 1 7050 x 10\n", "book 7049.5 / 7050\n"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is not in %s", line, out.String())
		}
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out = &output{on: func(line string) {
		if strings.HasPrefix(line, "refused NOPE|BYMA|CI unknown_instrument") {
			cancel()
		}
	}}
	if err := follow(ctx, out, s.URL, s.Username, s.Password, "NOPE|BYMA|CI"); err != nil || !strings.Contains(out.String(), "refused") {
		t.Errorf("%v: %s", err, out.String())
	}
	out.on = func(string) {}
	if err := follow(t.Context(), out, s.URL, s.Username, "wrong", ggal); client.ReasonOf(err) != wire.InvalidCredentials {
		t.Error(err)
	}
}
