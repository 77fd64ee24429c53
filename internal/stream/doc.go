// Package stream is the heart of Rueda: it numbers market events, keeps the books (package book),
// encodes each message once and lets every subscriber read it from one place.
//
// The way of a trade. A feed calls Hub.Publish. The hub, the one numberer,
// gives the trade its N in its instrument and its position in the whole stream,
// keeps it on the instrument's tape (package recent), encodes and frames it once, and appends the
// frame to the ring of each topic that has readers: the instrument's own, and
// the group of each pattern that covers it. It wakes the shards that have
// readers there. A shard takes a Turn: it notes in its view of each touched topic how far
// the ring goes now, and Next gives its host the subscribers concerned. What the turn
// brought of a topic is the same bytes for all who keep up: Gather gives a piece of
// the ring itself, or puts the pieces of several together, and it goes out in one write.
//
// A subscriber has no queue, and one that keeps up no place of its own. One that falls
// behind, replays or waits for a state gets, for that identifier, a cursor in the
// ring (late); what waits for it is what lies between cursor and tail. To resume is
// to read the tape and then the ring; to be slow is to be far behind; to conflate is
// to move the cursor to the newest state.
//
// Formats other than JSON are made of such a piece once a turn for all who share it.
// Delayed data has instruments and topics of its own in a replica, to which the rows of the journal
// are applied when they are as old as the delay (replica.go). A subscriber whose right changes
// continues at the other delay behind the position that it was sent (move.go).
//
// A tier (depth, conflation) of an instrument exists while somebody reads it.
// All tiers of a book share one N. The R:true for one subscriber shows the tier
// as of its newest message and takes that message's N, so that the next update chains.
//
// Bars are counted for every instrument whether anybody reads them or not (package bars); each
// interval is a channel with a tape of its own. By this machine's clock Run, or a Publish that comes
// first, tells those that are over. On a virtual clock the events of the market do. A summary has the
// position of the message that changed it.
//
// # Concurrency
//
// One mutex, Hub.mu, guards the hub, the instruments, the topics and the unpublished end of every
// ring. Publish and Define hold it for some events, a shard's Turn while it notes tails, Subscribe
// while it changes who reads what; long work lets it go now and then (lock.go), while Hub.feeding,
// which is taken before it, keeps the events of other feeds back. The catalogue has a lock of its
// own, which may be taken under Hub.mu. A panic while events are applied ends the process. Hub.mu
// is never held while calling out, except for a shard's wake, which must not block nor call back.
// A Shard, its views and its Subscribers belong to one goroutine and take Hub.mu where they touch
// the hub. What a ring holds before a tail taken under the lock is immutable and read without it.
//
// The lock is not held while the disk is waited for. With a journal Hub.Run, which is the
// caller's goroutine, has one that commits (commit.go), some that read old rows and one for each
// replica, and waits for them. A tail moves only when what lies before it is in the journal.
package stream
