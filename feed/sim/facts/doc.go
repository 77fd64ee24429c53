// Package facts computes the stylised facts of a market from a stream of events. They describe how
// trades cluster and repeat their side, how wide spreads are, how prices move, and how many orders
// there are for each trade. Tests check the simulated exchange against such figures, and any
// recording can be compared with them.
//
//	c := facts.New()
//	err := source.Run(ctx, c) // or call c.Define and c.Publish
//	...
//	err = c.Table().WriteText(os.Stdout)
//
// # What is counted
//
// Only continuous trading is counted: while the phase of an instrument is open and its book is
// known. A marketable order is the set of trades of one side with the same time. An update of the
// book adds an order for each level that grows, and cancels one for each level that shrinks by more
// than was just traded. Order-by-order events are counted as they are. Spreads are weighted by
// time. If a trade has no side, it is inferred from the mid price. Returns are changes of the mid
// price from minute to minute.
//
// # Concurrency
//
// A Collector is safe for concurrent use and starts no goroutines.
package facts
