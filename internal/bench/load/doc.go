// Package load is the load program of a measurement: many WebSocket connections of one
// thread, which reads them as cheaply as it can, checks every message and counts.
//
// It is the same program for every server that is measured, the bare one of
// internal/bench/bare included. What differs between servers is a row of the table in
// protocol.go: the request of the upgrade, the steps until data flows, and
// how messages lie in the frames. The messages themselves are Rueda's data messages
// with every server, with their N and T, so that loss, doubling and order are seen at
// the receiver and latency is the time from T to the return of the read.
//
// The cost of a message here is part of what is measured, since on one machine the load
// takes processor time from the server. One message costs about 20 ns besides the
// kernel's copy: the frame's length, a comparison with the instrument that this
// connection had last, the digits of N, and a comparison with the one expected. Latency is taken from
// every Sample-th message.
//
// # Concurrency
//
// The connections belong to one goroutine, locked to its thread, which waits in epoll.
// Requests reach it through a mailbox and an eventfd, and are answered from there.
package load
