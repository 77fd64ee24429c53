// Package jetstream connects a node of a cluster to its log on NATS JetStream: one stream with one
// subject, whose messages are batches of rows, and a lease in a key-value store.
//
// Each message is appended with the sequence that the newest one must have. So the stream refuses
// the message of a node that has not seen the newest one: the stream is the fence. The lease only
// decides which node tries to append.
//
// # Sessions
//
// A Session is one connection. It never connects again by itself, and its consumer never begins
// again by itself: after any error the caller closes it and dials a new one. Nothing of a session
// can therefore arrive, or be sent, in another one. Rows and the messages of Listen come from one
// channel, in the order of arrival. Those of Notes have channels of their own.
//
// # Settings
//
// Dial creates the stream with file storage if there is none, unless Config.MustExist is set. It
// does not change an existing one. The stream drops its oldest messages at Config.Bytes and
// Config.Age: the journals of the nodes have their rows. JetStream syncs its files every two
// minutes unless sync_interval in the jetstream block of nats-server says otherwise;
// docs/cluster.md has what that means and costs.
//
// # Concurrency
//
// The methods of a Session may be called by several goroutines, except for Attach and Parse, which
// belong to one. nats.go has goroutines of its own, which end with Close.
package jetstream
