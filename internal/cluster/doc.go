// Package cluster has the rules by which several machines share one log, as state machines.
//
// # The log
//
// A stream carries the rows of the cluster as messages, each of which is a [Batch]. One node, the
// leader, numbers rows and appends them. All nodes follow the stream, write the rows to their own
// journals, and show clients only what came back from the stream. A [Node] is one of them. Its host
// has the connection, the journal, the clock and the goroutines.
//
// # Terms
//
// A leader begins a [Term] with a term row. It numbers nothing before its term row has come back.
// Each append states the sequence that the newest message of the stream must have, so an append of
// an earlier leader is refused when its successor has appended anything. A lease decides who tries
// to lead; the stream does not depend on it. A candidate does not take the lease while batches of
// another leader arrive. The leadership ends when the node resigns, when the stream refuses an
// append, or when the outcome of an append stays unknown. It also ends when the connection ends,
// when another term begins, and when a report or the journal shows that the term cannot continue.
// Finally, it ends if no append was acknowledged and the lease was not renewed for the length of a
// lease. The node then follows, and tries again.
//
// A reader ignores batches of terms before the newest one. A stream can lose messages, and then
// uses their sequences again. For the same reason a consumer begins with the message that the node
// handled last: another message at this sequence means that the stream has changed.
//
// A term row contains the [History] of the epoch: which term numbered which rows. A node compares
// its newest row with it, and so finds out whether its rows belong to the log.
//
// # Lost messages
//
// The stream carries rows, and the journals of the nodes store them. Before a term begins, its
// candidate asks all registered nodes for their positions (a census). It gets the rows that it does
// not have from the node with the newest ones, and appends those that the stream has lost. A node
// that shows rows to clients registers first in a store that the nodes share. Rows that clients
// have may be missing if a registered node cannot state what it has shown. A new epoch then begins:
// with Config.Strict always, otherwise if anything indicates that the stream has lost messages.
//
// A leader retires a member that has not reported for Config.Retire. It names the member in a
// batch, after which the member shows nothing until it has registered again. When another member
// has all rows up to that batch, the leader removes the retired one from the list: a census is
// complete without it. A node that has lost rows of its journal is complete again when it has a
// batch that names it as joined. The leader of that batch led before the node reported to it, so
// the log has all rows that the node may have shown. A node has also lost rows if it was registered
// after its state was stored: its disk is an older one.
//
// # What the host guarantees
//
// Events of a session, which is a connection to the log, are not passed after its end, and nothing
// is sent for it. If the stream loses messages, the sessions of nodes should end. Otherwise a node
// notices it when an append is refused, or when another node reports a newer term.
//
// # Files
//
//	Who numbers rows, and for how long?     leader.go
//	How does a node follow the stream?      follower.go
//	What does a node report to the others?  state.go
//	How do rows get into JetStream?         jetstream/jetstream.go
//	How does a new node get old days?       copying/earlier.go
package cluster
