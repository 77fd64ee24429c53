// Package scenario measures Rueda in comparison with a bare program that makes only the system calls.
//
// # Method
//
// Server and load are separate processes, started for every run, on one machine over loopback. The
// server is a whole gateway (package host): feed, book, numbering, encoding, fan-out to each
// connection's own subscriptions, socket; or the ceiling (package bare): write(2) of messages with
// the same layout. The load (package load) is the same program for both. It connects, logs in,
// subscribes, and then checks and counts every message of every connection. A run fails if a
// message is lost, duplicated or reordered, or if the last message does not reach all connections.
//
// The window begins and ends with a mark, at which the load reads its counters, the processor time
// of all processes and that of the machine. Deliveries and processor seconds therefore cover the
// same time. The load of other processes is reported as foreign load.
//
// Runs come in pairs of ceiling and Rueda in alternating order; the median is reported. Compare has
// pairs of two versions of the gateway instead. The serving program of each is a command that runs
// RoleServe; bare program, load and workloads are of this version.
//
// # Patterns
//
// A publisher at full speed needs back-pressure. "lockstep" publishes the next batch when every
// shard of the gateway has handled the last one, or all except a few. It waits while the sockets of
// many connections are full: each write then contains one batch. "window" publishes while no
// connection lacks more than a number of messages, which the load reports in a page of shared
// memory. "rate" publishes at a fixed rate. See package pattern.
//
// # Concurrency
//
// Everything runs on the caller's goroutine, which waits for the processes. When several work at
// the same time, it reads their answers one after another. Each client that makes requests during a
// window, and each connection of a hostile user, has its own goroutines, which end with it.
package scenario
