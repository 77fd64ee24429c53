package sim

import (
	"context"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed/feedtest"
)

// BenchmarkSim is how much faster than real time 400 instruments run on one
// core, with a sink that does nothing. The bar is 1,000 times.
func BenchmarkSim(b *testing.B) {
	const span = 30 * time.Minute
	source, err := New(Config{Seed: 1, Instruments: 400, Speed: -1, Duration: span})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	events := 0
	for b.Loop() {
		var sink feedtest.CountSink
		if err := source.Run(context.Background(), &sink); err != nil {
			b.Fatal(err)
		}
		n, _ := sink.Count()
		events += n
	}
	seconds := b.Elapsed().Seconds()
	b.ReportMetric(span.Seconds()*float64(b.N)/seconds, "x-realtime")
	b.ReportMetric(seconds*1e9/float64(events), "ns/event")
	b.ReportMetric(float64(events)/float64(b.N)/span.Seconds(), "events/s")
}

// BenchmarkWarmUp is the cost of the books' filling before the start.
func BenchmarkWarmUp(b *testing.B) {
	listings, err := list(0)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		newExchange(1, listings, -int64(warmUp)).warmUp()
	}
}
