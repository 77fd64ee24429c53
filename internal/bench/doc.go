// Package bench measures Rueda against the bare program that does nothing but the system calls.
//
// # How a figure comes about
//
// Server and load are processes of their own, started anew for every run, both on this machine over
// loopback. The server is a whole gateway (package host): feed, book, number, encode, fan-out by each
// connection's own set, socket; or the ceiling (package bare): write(2) of messages of the same layout. The load
// (package load) is the same program for both. It connects, logs in, subscribes, and then checks and counts every
// message of every connection. A run that lost, doubled or reordered one message fails, and so does a run
// whose last message did not reach everybody.
//
// The window begins and ends with a mark: in one moment the load's thread reads its counters, the
// processor time of all processes by their own clocks, and the machine's. So deliveries and processor seconds are
// of exactly the same span. What the machine did beyond these processes is told as foreign load.
//
// Runs come in pairs, ceiling and Rueda, in turn the one and the other first; what is told is the median.
//
// # Patterns
//
// A publisher at full speed must be held back by something. "lockstep" publishes the next batch as soon as every
// shard of the gateway has taken note of the last, or of all but a few, and holds while the sockets of many connections are full: each write
// then holds one batch. "window" publishes as long as no connection lacks more than so many messages, which the load tells
// through a page of shared memory. "rate" keeps a rate. See package pattern.
//
// # Concurrency
//
// Everything is done in the caller's goroutine; the processes are waited for. Where several of them
// work at once their answers are read one after another.
package bench
