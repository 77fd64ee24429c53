// Package facts computes the stylised facts of a market from any stream of its events: how
// trades cluster and repeat their side, how wide spreads are, how prices move, how many orders come
// for each trade. The simulated exchange is held to such figures, and any recording can be put beside it.
//
//	c := facts.New()
//	err := source.Run(ctx, c) // or c.Define and c.Publish by hand
//	...
//	err = c.Table().WriteText(os.Stdout)
//
// # What is counted
//
// Continuous trading alone: while an instrument's phase is open and its book is known. A
// marketable order is the trades of one side that have one time. An update of the book adds an order
// for each level that grows, and cancels one for each level that shrinks by more than has just
// traded; with events of single orders they are counted as they are. Spreads are weighted by
// the time they stand. Where a trade has no side, it is that of the middle of the book it lies away
// from. Returns are those of the middle of the book from minute to minute.
//
// # Concurrency
//
// A Collector is safe for concurrent use and starts no goroutine.
package facts
