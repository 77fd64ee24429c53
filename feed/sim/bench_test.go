package sim

import (
	"context"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed/feedtest"
)

// BenchmarkSim measures how much faster than real time 400 instruments run on one core, with a sink
// that does nothing. The target is 1,000 times.
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

// BenchmarkWarmUp measures filling the books before the start.
func BenchmarkWarmUp(b *testing.B) {
	listings, err := list(defaultSet)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		newExchange(1, listings, -int64(warmUp), nil).warmUp()
	}
}

// BenchmarkDay measures how much faster than real time a trading day of the whole market with its
// auctions runs on one core. The target is 1,000 times.
func BenchmarkDay(b *testing.B) {
	source, err := New(Config{Seed: 1, Clock: Virtual, Speed: -1, Days: 1, Start: time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC)})
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
	const day = 6*time.Hour + 55*time.Minute // from 10:25 to 17:20
	seconds := b.Elapsed().Seconds()
	b.ReportMetric(day.Seconds()*float64(b.N)/seconds, "x-realtime")
	b.ReportMetric(seconds*1e9/float64(events), "ns/event")
}
