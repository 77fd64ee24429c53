// Package stream is the hub: it numbers market events, keeps the state of all instruments, encodes
// each message once, and lets every subscriber read it from one ring.
//
// # A trade
//
// A feed calls [Hub.Publish]. The hub gives the trade its N in its instrument and its position in the
// whole stream, and appends its row to the journal. It then applies the row: it keeps it as a recent
// row, encodes and frames its message once, and appends the frame to the ring of each topic that has
// readers. Those are the topic of the instrument and the topics of patterns that cover it. It wakes
// the shards that have readers there.
//
// A shard calls [Shard.Turn], which notes how far each of its rings may be read now, and then
// [Shard.Next] for each subscriber concerned. All subscribers of a shard that are live read the same
// bytes: [Subscriber.Gather] returns a piece of the ring itself, or joins the pieces of several rings,
// and the piece goes out in one write. Formats other than JSON are made from such a piece once, for
// all who share it.
//
// # Subscribers
//
// A subscriber has no queue, and a live one has no cursor either. A subscription that falls behind,
// replays, or waits for a snapshot has a cursor in its ring (type late). What waits for it is what
// lies between that cursor and the tail. A resume reads recent rows, or rows of the journal, and then
// the ring. Conflation moves the cursor to the newest state.
//
// A tier (depth, conflation) of an instrument exists while somebody reads it. All tiers of a book
// share one N. The R:true for one subscriber shows the tier as of its newest message and has the N of
// that message, so that the next update follows it.
//
// Delayed data has instruments and topics of its own in a replica, to which the rows of the journal
// are applied when they are as old as the delay (replica.go). A subscriber whose right changes
// continues at the other delay behind the position that it was sent (move.go).
//
// Bars are counted for every instrument, with or without readers. Each interval is a channel with
// recent rows of its own. [Hub.Run], or a Publish that comes first, sends the bars that have ended. On
// a virtual clock the events of the market do so. A summary has the position of the row that changed
// it.
//
// # Layers
//
// A hub is built in layers, each of which embeds the one below and calls nothing above it (layers.go).
//
// # Concurrency
//
// One mutex, core.mu, guards the layers of the hub, the instruments, the topics and the uncommitted
// end of every ring. Publish and Define hold it for some events, a shard's Turn while it notes tails,
// Subscribe while it changes who reads what. Long work releases it now and then (lock.go). Meanwhile
// Hub.feeding, which is taken before it, keeps back the events of other feeds. The catalogue has a
// lock of its own, which may be taken under core.mu. A panic while events are applied ends the
// process. Nothing outside is called under core.mu, except for a shard's wake, which must not block
// nor call back. A Shard, its views and its Subscribers belong to one goroutine and take core.mu where
// they touch the hub. What a ring holds before a tail that was taken under the lock is immutable, and
// read without it.
//
// The lock is not held while a goroutine waits for the disk. With a journal, Hub.Run has a goroutine
// that commits (commit.go), some that read old rows, and one for each replica, and waits for them.
// A tail moves only when what lies before it is in the journal.
package stream
