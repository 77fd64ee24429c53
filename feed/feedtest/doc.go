// Package feedtest checks feeds, and provides sinks for other tests.
//
// [Run] checks that a feed.Source follows the rules of package feed:
//
//	func TestConformance(t *testing.T) {
//		newSource := func(t *testing.T) feed.Source { return mine.New() }
//		feedtest.Run(t, newSource, feedtest.Options{})
//	}
//
// There are three sinks: a [Recorder] keeps a copy of all events, a [HashSink] computes a hash by
// which two runs can be compared, and a [CountSink] only counts, for benchmarks.
//
// # Concurrency
//
// The sinks are safe for concurrent use, as package feed requires. Run starts one goroutine per
// source and waits for it. It fails the test if the source leaves goroutines behind.
package feedtest
