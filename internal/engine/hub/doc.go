// Package hub numbers market events, keeps the state of all instruments, and encodes each message
// once. All subscribers of a topic read its messages from one ring.
//
// # A trade
//
// A feed calls [Hub.Publish]. The hub assigns the trade its N in the instrument and its position in
// the whole stream. It appends the row of the trade to the journal. It then applies the row: it
// keeps it as a recent row, and encodes and frames its message once. It appends the frame to the
// ring of each topic that has readers: the topic of the instrument, and the topics of patterns that
// cover it. Finally it wakes the shards that have readers of these topics.
//
// A tier (depth, conflation) of an instrument exists while it has readers. All tiers of a book
// share one N. The R:true message for one subscriber shows the tier as of its newest message. It
// has the N of that message, so that the next update follows it.
//
// Delayed data has its own instruments and topics in a replica. The replica applies the rows of the
// journal when they are as old as the delay (replica_run.go).
//
// The hub counts bars for every instrument, with or without readers. Each interval is a channel
// with its own recent rows. [Hub.Run] sends the bars that have ended, or a Publish does if it comes
// first. For a market with a virtual clock, the events of the market do so. A summary has the
// position of the row that changed it.
//
// # Clusters
//
// A hub with Config.Following applies the rows of another hub (follow.go). One with Config.Log
// numbers rows for the log of a cluster and has no readers; it is restored from the journal of a
// following hub.
//
// # Shards
//
// Package subscription has the readers. Each of its shards has a [Port], through which alone it
// uses the hub. The hub calls nothing of a shard except the wake function of its port.
//
// # Layers
//
// A hub is built in layers. Each layer embeds the one below and calls nothing above it (layers.go).
//
// # Concurrency
//
// One mutex, core.mu, guards the layers of the hub, the instruments, the topics, the ports and the
// uncommitted end of every ring. Publish and Define hold it while they apply some events. A shard
// holds it while it notes tails, and while it adds and removes readers. Long work releases it now
// and then (package steplock). Meanwhile Hub.feeding, which is taken before core.mu, makes the
// events of other feeds wait. The catalogue has its own lock, which may be taken under core.mu, and
// so has the queue of jobs. A panic while events are applied ends the process.
//
// The hub calls no outside function under core.mu except the wake function of a port, which must
// not block and must not call back.
//
// No goroutine holds the lock while it waits for the disk. With a journal, Hub.Run starts a
// goroutine that commits (commit.go), some that serve jobs of package readjob, and one for each
// replica. It waits for them before it returns. A tail moves only when the rows before it are in
// the journal.
package hub
