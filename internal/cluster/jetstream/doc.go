// Package jetstream connects a node of a cluster to its log on NATS JetStream: one stream with one
// subject, whose messages are batches of rows, and a lease in a key-value store.
//
// Each message is appended with the sequence that the newest one must have. So the stream refuses
// the message of a node that has not seen the newest one, whatever that node believes: the stream
// is the fence. The lease only decides who tries.
//
// # Sessions
//
// A Session is one connection. It never connects again by itself, and its consumer never begins
// again by itself: after any error the caller closes it and dials a new one. Nothing of a session
// can therefore arrive, or be sent, in another one. All that the nodes send to this one comes from
// one channel, in the order of arrival.
//
// # Settings
//
// Dial creates the stream if there is none, with file storage, and does not change another one. The
// oldest messages go when the stream has Config.Bytes or Config.Age, because the journals of the
// nodes have them. JetStream syncs its files every two minutes unless sync_interval in the
// jetstream block of nats-server says otherwise; docs/cluster.md has what that means and costs.
//
// # Concurrency
//
// The methods of a Session may be called by several goroutines, except for Attach and Parse, which
// belong to one. nats.go has goroutines of its own, which end with Close.
package jetstream
