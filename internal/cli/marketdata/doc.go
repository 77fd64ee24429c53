// Package marketdata has the commands that read and record market data: watch, record, verify,
// replay, export, trigger and sim.
//
// # Concurrency
//
// A command runs on the goroutine of its caller. A stream that is followed has two more for each
// connection: one reads the socket and one refreshes the token. Both have ended when the function
// of the connection returns.
package marketdata
