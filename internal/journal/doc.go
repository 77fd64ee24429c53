// Package journal keeps the numbered messages of the stream on disk: what a client was shown
// can be had again, with the same numbers, tomorrow and after a restart.
//
// # What is kept
//
// Each numbered message of the undelayed default tiers is one Row: trades, cancels and corrections,
// statuses, quotes, bars, reference figures, and the changes of whole books. What is derived from these
// (depths, conflated tiers, summaries) is not kept. The hub calls Append when it
// numbers a message and Commit, one write(2), before anybody may read it: a row is in the journal before its
// message is seen. Commit does not wait for the disk; Run does, once a second.
//
// # Epochs and restarts
//
// Each segment has a checkpoint: where all sequences stand, and the state of every book. It is written in pieces
// of 64 KiB, one with each Commit, between the rows of the stream; its rows tell how an instrument stands at that
// place. It counts when its end is committed. The next segment begins Config.Segment bytes behind that end.
// After a restart Restore gives the last whole checkpoint and the rows from its beginning on, or all rows of an
// epoch that has no whole one, and the hub goes on numbering.
// The epoch stays when nothing that was committed can have been lost: after a clean end, or
// after a kill on a machine that still runs, since what was written is in its page cache. How far rows were given out
// stands in a page of the machine's memory (Config.Memory, highwater.go), which a kill leaves and a restart of the machine
// does not: rows that were streamed while nothing could be written lie above the end of the journal there, whatever the
// disk took of the state. After a crash of the machine, damage, a lost file, an end while rows were being lost, or without
// that page a new epoch begins. It also tells an older copy of the folder, until the machine restarts or the journal
// ends cleanly; behind that nothing does.
//
// # On disk
//
//	lock, state                  who writes; epoch, boot id, clean end: written in place, on a full disk too
//	2026-11-21/00000007.seg      a segment, 256 MiB
//	2026-11-20/00000006.segz     one of a closed day, compressed in pieces that can be entered anywhere
//	2026-11-20/day.idx           all rows of that day but for books once more, sorted by series
//
// A segment is a header and frames. A frame is what one commit wrote, with a CRC32C over its records and its place, and a
// check of its own length, so that an end that was torn off (which is cut, and is no loss) is told from a byte that was
// changed (which is). Every 64 KiB, or 4.3 s, a block begins: the place that records count their position and time
// from, and where reading goes on behind damage. Records are little-endian and multiples of 8 bytes; one for a
// changed level of a book takes 48. codec.go has the layout. What a file says of itself counts, not its name: segments that changed
// their places are put in order, doubles and those of another journal are left out, which Damage tells.
//
// Days are UTC dates of At, in the order in which they were written. Rows of a clock that goes back, or ahead by more than
// a day for less than a minute, are filed under the newest one. Rows of a virtual clock are filed under the day of this
// machine's clock unless all clocks are virtual; calendar.go has the rule. When a later day has
// its checkpoint, Run closes a day: it goes through the day once, puts the rows of each series together in 32 MiB of memory
// and a temporary file, and writes day.idx, then the compressed form of each segment. Each file gets its name
// when it is whole and on the disk, and a kill at any moment leaves a day that is read as before and closed again.
// Then the oldest days beyond the days and bytes of Config are removed. Days that are not over by this machine's
// clock do not count as days, unless all clocks are virtual.
//
// # Reading
//
// Read finds the rows of one series by index: in day.idx of closed days, whose lists are searched
// on the disk, and for the others in memory, where the place of each row is known (4 bytes a row; the index is made again when the journal is opened). Scan gives the stream in its
// order, from a position or a time. BookAt begins with a checkpoint. A Reader does the same for a folder that another
// process writes, or for one segment. Rows that Read takes by their place from a segment were verified when they were
// written or the journal was opened; all else is verified as it is read, and so is a segment that the disk failed to take,
// since the kernel forgets what it could not write. What is wrong with a file is an error of type
// *Damage with its place. What Read or Find found in a closed day is read to its end, though the day be removed meanwhile; where
// else a file is gone that was to be read, the error is ErrNotKept.
//
// # A full disk
//
// When a write fails the journal is suspended: rows are lost, streaming goes on, Suspended and one line in the log tell it.
// When a probe finds room again, the next Commit begins a segment with a Hole, up to whose position rows are
// missing, and its checkpoint; Oldest says from which N on a series is complete, from the first row that is lost on.
// Until that checkpoint is whole, the
// end of the process ends the epoch.
//
// # Concurrency
//
// Append, Define, Start, Take and Done belong to one goroutine at a time: they are called under the
// hub's lock and only touch memory. Write does the work with files and
// may wait for the disk; it is called without that lock, once for each Batch that Take gave, while
// rows are appended. Commit is the three in one. What waits to be written is bounded: beyond
// Config.Pending rows are lost, as on a full disk. Run is the caller's goroutine, which syncs, and one that closes and
// removes days, for which it waits. All methods
// of Archive are safe from any goroutine; Oldest, Instrument and Lookup may be called under the
// hub's lock.
//
// Archive.mu guards the list of days and what readers see of the segment that is written: Write
// holds it to add what it wrote, readers to copy slice headers. All that those slices held then is
// immutable. The file of a closed day counts who holds it, the archive and readers, and the last
// one closes it. Journal.duty guards the files that the writer hands to Run. The table of
// instruments has a lock of its own. None of them is held during I/O, and no two at a time.
package journal
