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
// an earlier leader is refused when its successor has appended anything. A lease only decides who
// tries to lead. After an append that failed, and after the end of a connection, the leadership
// ends. The node then follows, and tries again.
//
// A reader ignores batches of earlier terms than the newest one. This matters because a stream can
// lose messages, and sequences are then used again. For the same reason a consumer begins with the
// message that was handled last: another message at its sequence means that the stream has changed.
//
// A term row contains the [History] of the epoch: which term numbered which rows. A node compares
// its newest row with it, and so finds out whether its rows belong to the log.
//
// # Lost messages
//
// The stream carries rows, and the journals of the nodes store them. Before a term begins, its
// candidate asks all registered nodes how far they are (a census). It takes the rows that it does
// not have from the one that is furthest, and appends those that the stream has lost. A node that
// shows rows to clients registers first in a store that the nodes share. Rows that clients have may
// be missing if a registered node cannot state what it has shown. A new epoch then begins: with
// Config.Strict always, otherwise if anything indicates that the stream has lost messages.
//
// A leader retires a member that is silent for long: by a batch, after which the member shows
// nothing until it has registered again. The member is taken from the list when another one has all
// rows up to that batch, so that a census is complete without it. A node that has lost rows of its
// journal is complete again when it has a batch that names it. The leader was in office before that
// node could report, so it has appended all rows that the node may have shown.
//
// # What the host guarantees
//
// Events of a session, which is a connection to the log, are not passed after its end, and nothing
// is sent for it. If the stream loses messages, the sessions of all nodes end.
package cluster
