// Package load is the load program of a measurement: many WebSocket connections on one thread,
// which reads them at low cost and checks and counts every message.
//
// It is the same program for every measured server, including the bare one of
// bench/bare. The differences between servers are entries of a table in protocol.go:
// the request of the upgrade, the steps until data flows, and the framing of messages. All servers
// send Rueda's data messages with their N and T, so that the receiver detects loss, duplicates and
// reordering, and latency is the time from T to the return of the read.
//
// The cost of a message here is part of the measurement, because the load uses processor time of
// the same machine. A message costs about 20 ns besides the kernel's copy: the length of the frame,
// a comparison with the last instrument of this connection, the digits of N, and a comparison with
// the expected one. Every Sample-th message has its latency measured.
//
// # Concurrency
//
// The connections belong to one goroutine on its own thread, which waits in epoll. Requests reach
// it through a mailbox and an eventfd, and are answered there.
package load
