// Package host is the server of a measurement: a whole gateway, as a broker's program would use it,
// with a feed that publishes on request and a user base without cost.
//
// # Concurrency
//
// Requests are handled on the caller's goroutine of Run. The gateway has its own, and the feed runs
// on its supervisor's: it gets its work from a channel.
package host
