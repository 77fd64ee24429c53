// Package host runs a node of a cluster. It connects the state machine of package cluster with NATS
// JetStream, with the hub that follows the log, and with the hub that numbers while the node leads.
//
// A node has two hubs. The following hub has the readers and the journal, and applies only what
// came back from the stream. The numbering hub exists while the node leads. It has no readers; its
// rows go to the stream. When the leadership ends, the numbering hub is dropped with all rows that
// the stream does not have. Nothing has to be undone.
//
// # Concurrency
//
// The goroutine of Run owns the state machine, the following hub's new rows and the session.
// Requests to NATS, to the store and to the journal run on goroutines of their own, which report by
// events; an event of an earlier session is dropped. A leadership has goroutines for the feeds and
// for the numbering hub. A new node has one that adds earlier days to the journal, with a session
// of its own. Run waits for all of them. Status and Lag may be called by any goroutine.
package host
