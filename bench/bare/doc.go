// Package bare is the ceiling of every measurement: a program that does the socket work of a server
// and nothing else. It gives each client fixed answers and then only writes the same messages to
// all sockets with write(2) from a few threads, or reads and answers messages.
//
// It does not have what makes a gateway: HTTP, tokens, subscriptions, books, slow clients, limits.
// No server can therefore be faster with the same system calls, and the ratio to it is the cost of
// all of that.
//
// # Concurrency
//
// A thread is a goroutine that is locked to its own thread, with a listener, an epoll instance and
// sockets. The goroutine of Run starts them, gives them their work and waits for them.
package bare
