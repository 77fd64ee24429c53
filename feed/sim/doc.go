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
// cedears of market BYMA in the terms CI and 24hs, with plausible prices,
// tick tables and lots that are nobody's quotations (listings.txt), and FAKE|SIM|CI, which trades
// several times a second at any hour. Config.Instruments takes fewer or adds made-up symbols.
//
// # When
//
// With the real clock all markets are always open. With the virtual one the market BYMA goes
// through trading days by a calendar (calendar.json, or Config.Calendar): pre-open, opening
// auction, continuous trading, closing auction, trade at close, closed, and the next day, with
// bands and volatility auctions, halts, cancels and corrections of trades. Each phase is told as a status
// of every instrument and of *|BYMA|*, previous close and settlement price as reference
// figures, the indicative price of an auction as a quote whose two sides have it.
// Behind each day both markets tell midnight, and behind the last one the morning of the next too, so
// that bars and days by event times come to their end. Source.GoOn begins behind days that were told before.
//
// # Who trades
//
// Each underlying has a value that moves with a market factor and a noise of its
// own, more at the open and the close than at noon and by a volatility that varies itself, with
// rare jumps; the terms of a symbol and its dollar lines share it, carried by a
// repo rate and by the implicit dollars. Around it three kinds of traders act at
// random times:
//
//   - the crowd rests limit orders, near the best price or, with a power law,
//     away from it, and cancels them at random;
//   - takers send marketable orders, whose side stays for runs with a power-law tail, and each of which
//     brings about others for a fraction of a second (a Hawkes process, sampled exactly by
//     thinning);
//   - a market maker quotes some levels on both sides of the value, and moves
//     them when it has moved. This keeps a book two-sided and, as it takes the
//     orders that are on the wrong side by then and have not fled, lets prices follow the value.
//
// The rates are in class.go. They give spreads, clustering, tails and sign memory of the size
// seen on real books; they are fitted to no venue. docs/simulator.md has the figures beside real ones, and
// package facts computes them.
//
// # Repeatability
//
// What happens is a function of the seed: each instrument, each underlying and
// the market has a generator of its own, and all actions are ordered by virtual
// time, which is independent of how fast they are published. The same binary
// gives the same events; another architecture may round floating-point
// intermediates in another way.
//
// # Faults
//
// Source.Trigger makes something go wrong in an exchange that runs, for tests of clients; Faults
// lists what, and refuses what would change nothing now. Everything heals by itself. When a fault takes place depends on the clock, so
// repeatability ends there.
//
// # Concurrency
//
// A Source starts no goroutine: Run does everything in its caller's, and sleeps
// until the next event is due. Several Runs may go on at once. Trigger may be called from anywhere:
// it leaves a note that Run finds before its next event.
package sim
