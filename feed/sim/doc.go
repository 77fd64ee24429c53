// Package sim is a simulated exchange: a feed.Source for demonstrations and for
// tests of whatever stands behind a feed.
//
//	source, err := sim.New(sim.Config{Seed: 1})
//	...
//	err = source.Run(ctx, sink)
//
// It is an exchange and not a random walk. Every instrument has an order book
// with price-time priority; trades are what happens when orders meet, and each
// order action is published as it would come from a venue: its trades, one for
// each order that was hit, and one book update behind them.
//
// # What trades
//
// The default set has shares, sovereign bonds in pesos and in dollars, and
// cedears of market BYMA in the terms CI and 24hs, with plausible names, prices,
// tick tables and lots that are nobody's quotations, and FAKE|SIM|CI, which trades
// several times a second at any hour. Config.Instruments adds made-up symbols.
// The markets are always open.
//
// # Who trades
//
// Each underlying has a value that moves with a market factor and a noise of its
// own, more at the open and the close of a six-hour session than at noon, with
// rare jumps; the terms of a symbol and its dollar line share it, carried by a
// repo rate and by the implicit dollar. Around it three kinds of traders act at
// random times:
//
//   - the crowd rests limit orders, near the best price or, with a power law,
//     away from it, and cancels them at random;
//   - takers send marketable orders, whose side tends to repeat, and each of which
//     excites the market for a second or so (a Hawkes process, sampled exactly by
//     thinning);
//   - a market maker quotes some levels on both sides of the value, and moves
//     them when it has moved. This keeps a book two-sided and, as it takes the
//     orders that are on the wrong side by then, lets prices follow the value.
//
// The rates are in class.go. They give spreads, order lives, clustering, and
// sign memory of the size seen on real books; they are fitted to no venue.
//
// # Repeatability
//
// What happens is a function of the seed: each instrument, each underlying and
// the market has a generator of its own, and all actions are ordered by virtual
// time, which is independent of how fast they are published. The same binary
// gives the same events; another architecture may round floating-point
// intermediates in another way.
//
// # Concurrency
//
// A Source starts no goroutine: Run does everything in its caller's, and sleeps
// until the next event is due. Several Runs may go on at once.
package sim
