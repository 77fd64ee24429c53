// Package journal is the event log on local files. It stores the numbered messages of the stream,
// so that clients can read them again with the same numbers, even after a restart.
//
// # Content
//
// Each numbered message of the default tiers without delay is one Row: trades, cancels and
// corrections, statuses, quotes, bars, reference figures, and changes of whole books. What follows
// from these (depths, conflated tiers, summaries) is not stored. The hub calls Append when it
// numbers a message, and Commit, one write(2), before anybody may read it. A row is therefore in
// the journal before its message is seen. Commit does not wait for the disk; Run syncs once a
// second.
//
// # Epochs and restarts
//
// Each segment has a checkpoint: the position of all sequences and the state of every book. It is
// written between the rows of the stream, in pieces of 64 KiB, one with each Commit, and its rows
// describe an instrument at that place. It is valid when its end is committed. The next segment
// begins Config.Segment bytes after that end. After a restart Restore returns the last complete
// checkpoint and the rows from its beginning, or all rows of an epoch without a complete
// checkpoint, and the hub continues numbering.
//
// The epoch stays if no committed row can be lost: after a clean end, or after a kill on a machine
// that still runs, because written data is in its page cache. A page of shared memory
// (Config.Memory) survives a kill and not a restart of the machine. It contains the greatest
// position that was streamed, so that rows which were streamed while nothing could be written are
// detected. After a crash of the machine, damage, a lost file, an end while rows were lost, or a
// kill without that page, a new epoch begins. Until the machine restarts, the page also detects an
// older copy of the folder, or one that is in use; after that nothing does.
//
// # Files
//
//	lock, state                  lock of the writer; epoch, boot id, clean end: updated in place
//	2026-11-21/00000007.seg      a segment, 256 MiB
//	2026-11-20/00000006.segz     a segment of a closed day, compressed in blocks
//	2026-11-20/day.idx           all rows of that day except books, sorted by series
//
// A segment is a header and frames. A frame is the data of one commit, with a CRC32C of its records
// and its offset, and a check of its length. A torn end (which is cut, and is no loss) can
// therefore be distinguished from a changed byte (which is damage). A block begins every 64 KiB, or
// 4.3 s: records contain positions and times relative to it, and reading continues with the next
// one after damage. Records are little-endian and multiples of 8 bytes; a changed level of a book
// takes 48. Package record describes the layout. File contents are trusted, not file names: renamed
// segments are put in order, and duplicates and segments of other journals are excluded and listed
// by Damage.
//
// Days are UTC dates of At in the order of writing. If a clock goes back, or ahead by more than a
// day for less than a minute, rows are filed under the newest day. Rows of a virtual clock are
// filed under the day of this machine's clock unless all clocks are virtual; calendar.go has the
// rule. When a later day has its checkpoint, Run closes a day: it reads the day once, sorts its
// rows by series with 32 MiB of memory and a temporary file. It writes day.idx and then the
// compressed segments. Files get their names when they are complete and synced. A kill at any time
// leaves a readable day that is closed again. Then the oldest days beyond the days and bytes of
// Config are removed. Days that are not over by this machine's clock do not count as days, unless
// all clocks are virtual. The journal of a new node of a cluster begins with the newest days of
// another node; AddDay adds the earlier ones while it is in use.
//
// # Reading
//
// Read finds the rows of one series by an index. For closed days it searches day.idx on disk. For
// other days an index in memory has the offset of each row, in 4 bytes; it is built again when the
// journal is opened. Scan returns the stream in order, from a position or a time. BookAt starts
// from a checkpoint. A Reader does the same for a folder that another process writes, or for one
// segment. Rows that Read finds by offset in a segment were verified when they were written or the
// journal was opened. All other data is verified as it is read, and so are segments after a failed
// sync, because the kernel drops pages that it could not write. A damaged day.idx is not an error:
// it is logged, the rows are read from the segments, and Run writes the index again. Other errors
// about the content of files are of type *Damage. A closed day that Read or Find uses is read to
// its end, even if it is removed meanwhile; if another file was removed, the error is ErrNotKept.
//
// # A full disk
//
// After a failed write the journal is suspended: rows are lost while streaming continues, and
// Suspended and a log line report it. When a probe finds free space, the next Commit begins a
// segment with a Gap, which contains the position up to which rows are missing, and a checkpoint.
// Oldest returns the N from which a series is complete. If the process ends before that checkpoint
// is complete, the epoch ends.
//
// An epoch whose newest rows are missing at the start ends with a segment that has only a Gap. If a
// number of a segment is missing between two epochs, rows are missing at the end of the first.
//
// # Concurrency
//
// Append, Define, Start, Take and Done belong to one goroutine at a time: they are called under the
// hub's lock and touch only memory. Write does the file I/O and may wait for the disk. It is called
// without that lock, once for each Batch of Take, while rows are appended. Commit does all three.
// Data that waits to be written is bounded: beyond Config.Pending rows are lost, as on a full disk.
// Run uses the caller's goroutine to sync, and one that it waits for to close and remove days. All
// methods of Archive may be called by any goroutine; Oldest, Instrument and Lookup also under the
// hub's lock.
//
// Archive.mu guards the list of days and what readers see of the active segment. Write holds it to
// add what it has written, readers to copy slice headers, whose content is immutable. The file of a
// closed day has a reference count of the archive and its readers; the last one closes it.
// Journal.syncMu guards the files that the writer passes to Run. The table of instruments has its
// own lock. None of these locks is held during I/O, and never two at a time. Journal.changing is
// held during I/O: the removal of the oldest day and AddDay wait for each other, and nobody else
// takes it.
package journal
