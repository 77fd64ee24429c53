// Package marketdata has the commands that read and record market data: watch, record, verify,
// replay, export, trigger and sim.
//
// # Concurrency
//
// A command runs on the goroutine of its caller, and iterates there over the events of a client.
// watch has a second goroutine that reports silence, record one that flushes the file. Both have
// ended when the command returns.
package marketdata
