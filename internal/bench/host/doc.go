// Package host is the server of a measurement: a whole gateway, put together as a program of a broker
// would, with a feed that publishes what it is told to and a user base that costs nothing.
//
// # Concurrency
//
// Requests are handled in the caller's goroutine of Run. The gateway runs in one of its own, and
// the feed in that of its supervisor: it takes its work from a channel.
package host
