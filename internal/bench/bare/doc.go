// Package bare is the ceiling of every measurement: a program that does the same work at
// the sockets as a server, and no other. It gives each client fixed answers and then does
// nothing but write(2) the same messages to all sockets from a few threads, or read and
// answer them.
//
// What it leaves out is what a gateway is: HTTP, tokens, subscriptions, books, slow clients,
// limits. So no server is faster with the same system calls, and a ratio to it says what
// all of that costs.
//
// # Concurrency
//
// A thread is a goroutine locked to one, with its own listener, epoll and sockets. The goroutine of
// Run starts them, gives them their work and waits for them.
package bare
