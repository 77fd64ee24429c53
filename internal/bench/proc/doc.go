// Package proc runs the programs of a measurement as processes of their own and
// talks with them: a request is one line of JSON on standard input, its answer
// one line on standard output, one after another. It also reads what the kernel
// counts about processes and the machine.
//
// # Concurrency
//
// Serve handles requests one after another in its caller's goroutine. A Child
// belongs to one goroutine.
package proc
