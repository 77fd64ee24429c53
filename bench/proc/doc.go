// Package proc runs the programs of a measurement as separate processes and communicates with them:
// a request is one line of JSON on standard input, its answer one line on standard output, in
// order. It also reads the kernel's counters of processes and the machine.
//
// # Concurrency
//
// Serve handles requests one after another on its caller's goroutine. A Child belongs to one
// goroutine.
package proc
