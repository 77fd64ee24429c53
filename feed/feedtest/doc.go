// Package feedtest checks feeds and helps to test what stands behind them.
//
// [Run] holds a feed.Source to the rules written in package feed:
//
//	func TestConformance(t *testing.T) {
//		feedtest.Run(t, func(t *testing.T) feed.Source { return newSource(t) }, feedtest.Options{})
//	}
//
// Three sinks serve other tests: a [Recorder] keeps a copy of everything, a
// [HashSink] boils it down to one sum that tells whether two runs were the same,
// and a [CountSink] only counts, for benchmarks.
//
// # Concurrency
//
// The sinks are safe for concurrent use, as package feed asks. Run starts one
// goroutine a source and waits for it; it fails the test when the source leaves
// one of its own behind.
package feedtest
