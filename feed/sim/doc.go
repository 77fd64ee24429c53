// Package sim implements a simulated exchange. It is a feed.Source for demonstrations and tests.
//
//	source, err := sim.New(sim.Config{Seed: 1})
//	...
//	err = source.Run(ctx, sink)
//
// Every instrument has an order book with price-time priority. Trades occur when orders match. Each
// order action is published as a venue would publish it: its trades, one for each order it hit,
// followed by one book update.
//
// # Instruments
//
// The default set has shares, sovereign bonds in pesos and in dollars, and cedears of market BYMA
// in the terms CI and 24hs. Prices, tick tables and lots are plausible but invented (listings.txt).
// FAKE|SIM|CI trades several times a second at any hour. Config.Instruments selects fewer
// instruments or adds invented symbols.
//
// # Hours
//
// With the real clock all markets are always open. With the virtual clock the market BYMA has
// trading days (calendar.json, or Config.Calendar): pre-open, opening auction, continuous trading,
// closing auction, trade at close, closed, and the next day. There are price bands with volatility
// auctions, halts, cancels and corrections of trades. Each phase is published as a status of every
// instrument and of *|BYMA|*. Previous close and settlement price are reference figures. The
// indicative price of an auction is a quote with that price on both sides. After each day both
// markets publish a status at midnight, and after the last one also on the next morning, so that
// bars and days end by event time. Source.ResumeAfter continues after days that were published
// before.
//
// # Traders
//
// Each underlying has a value that moves with a market factor, its own noise and the orders of
// takers, more at the open and the close than at noon. Its volatility varies. The terms of a symbol
// and its dollar lines share the value, adjusted by a repo rate and by the implicit dollar rates.
// Traders act at random times:
//
//   - takers send marketable orders in runs of one side with a power-law length. Each order
//     triggers others for a fraction of a second (a Hawkes process, sampled exactly by thinning).
//     The less expected its side is, the more it moves the value, so that returns are not
//     predictable;
//   - a market maker quotes several levels on both sides of the value and moves them once the value
//     has moved far enough. Its spread follows the volatility from order to order;
//   - the crowd places limit orders at the best quote, or behind it with a power law, and cancels
//     them at random, or when the quotes pass them;
//   - fast takers trade at the old quotes before the price goes far without a trade.
//
// The rates are in class.go and listings.txt. They give spreads, clustering, tails and sign memory
// of the size seen in real books, but are not fitted to a venue. docs/simulator.md compares the
// figures with real ones, and package facts computes them.
//
// # Reproducibility
//
// The seed determines all events. Each instrument, each underlying and the market has its own
// random generator, and all actions are ordered by virtual time, which is independent of the speed
// of publication. The same binary produces the same events; another architecture may round
// floating-point intermediates differently.
//
// # Faults
//
// Source.Trigger injects a fault into a running exchange, for tests of clients. Faults returns the
// list of faults. Trigger rejects a fault that would have no effect now. Every fault ends by
// itself. The time of a fault depends on the clock, so the events are no longer reproducible.
//
// # Concurrency
//
// A Source starts no goroutines: Run does everything in its caller's goroutine and sleeps until the
// next event is due. Several Runs may be active at once. Trigger may be called from any goroutine;
// Run handles the request before its next event.
package sim
