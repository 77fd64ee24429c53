// Package subscription has the subscribers of a hub. A [Subscriber] reads the rings of the topics
// of its items, and replays what its client has missed.
//
// # A turn
//
// A shard calls [Shard.Turn], which notes how far the shard may read each of its rings now. It then
// calls [Shard.Next], which returns the subscribers that have new messages. All subscribers of a
// shard that are live read the same bytes: [Subscriber.Gather] returns a piece of the ring itself,
// or joins the pieces of several rings, for one write to the socket. The shard encodes a piece in a
// format other than JSON once, for all subscribers that share the piece.
//
// # Subscribers
//
// A subscriber has no queue, and a live one has no cursor either. A subscription that falls behind,
// replays, or waits for a snapshot has a cursor in its ring (type late). The messages between that
// cursor and the tail wait for it. A resume reads recent rows, or rows of the journal, and then the
// ring. For a slow client, a snapshot replaces the messages that wait. Type itemState lists the
// states of a subscription.
//
// When the right of a subscriber changes to another delay, the subscriber continues at that delay,
// after the last position that it received (move.go).
//
// # Concurrency
//
// A Shard, its views and its Subscribers belong to one goroutine. They use the hub through a
// [hub.Port], and hold its lock where they say so. The part of a ring before a tail that was taken
// under the lock is immutable, and is read without the lock. Rows of the journal are read by jobs
// of package readjob, which give them to the shard under the hub's lock.
package subscription
