// Package feeds runs the sources of market events and keeps what the gateway knows about them.
//
// Events pass through three parts before they reach the hub:
//
//   - A Supervisor runs one source. It restarts the source when it fails, with a random and growing
//     pause, and passes its definitions and events on. Before that, its checks find prices, times
//     and sequences that look wrong, and refuse them if they are so configured.
//   - The Registry records which source has which instrument and which sources feed a market. It
//     publishes feed_down when the last source of a market fails or ends, feed_up when one is back,
//     and gaps where other sources still feed the market.
//   - A Schedule publishes the trading status of the markets that have hours: a source cannot open
//     a closed market.
//
// # Concurrency
//
// The methods of all three may be called by any goroutine. Registry and Schedule publish statuses
// while they hold their mutex, so that statuses keep their order. The lock order is Registry,
// Schedule, hub. The checks of a source have a mutex of their own, under which none is taken.
package feeds
