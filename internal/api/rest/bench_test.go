package rest_test

import (
	"net/http"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// BenchmarkHistoryPage measures a page of 10,000 trades, from the request to the last byte of the
// answer.
func BenchmarkHistoryPage(b *testing.B) {
	a := newArchive(b, journal.Config{}, nil)
	const n = 30_000
	for i := range int64(n) {
		a.keep(ggal, journal.Row{Kind: journal.Trade, Time: opening() + i*1e6, Latency: 5000, Price: market.Price(7050+i%10) * market.Scale,
			Size: market.Size(1+i%100) * market.Scale, Side: market.Buy, ID: "88123"})
	}
	for _, media := range []string{"application/json", "text/csv", "application/x-ndjson"} {
		b.Run(media, func(b *testing.B) {
			for b.Loop() {
				if w := a.ask(historyPath("trades", "limit", "10000", "after_sequence", "15000"), "Accept", media); w.Code != http.StatusOK {
					b.Fatal(w.Code)
				}
			}
		})
	}
}
