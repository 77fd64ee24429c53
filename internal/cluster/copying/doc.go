// Package copying copies the journal of a node of a cluster to a new node, so that a node can join
// when the log no longer has the beginning of its epoch. The new node begins with the newest days,
// serves clients, and adds the earlier days meanwhile. In the end its history, resume and export
// serve the same rows as those of the other node.
//
// # The copy
//
// A new node asks all nodes for an [Offer], and chooses one of them. A [Copier] requests the files
// of its journal in pieces, one request at a time, so the new node sets the pace. The files go to a
// folder next to the journal. A file has another name until its SHA-256 is that of the original.
//
// The journal of the other node grows meanwhile, closes days and removes old ones. The Copier
// therefore lists its files again, and copies what is missing, until that is little. It copies the
// newest closed day and what follows it, and lists the days before in a file. Then it reads
// the copy as a journal, computes the hashes of all closed days from their rows, and compares them
// with those of the other node and of all others that made an offer. At the end it writes a file
// with the state with which the node follows the log. Only a folder with that file becomes a
// journal, by [Install] at the next start of the process.
//
// # Earlier days
//
// The node copies the days of the list while it runs, the newest first, into another folder.
// [Copier.AddEarlier] verifies each in the same way, and moves it into the journal in one step, so
// that the journal has no gap at any time. Only a node with the same files can provide them.
//
// # Failures
//
// If a process ends during a copy, the next one continues with the copied files, if it copies from
// the same node. Files of another node are useless: its journal has other segments. Errors of the
// other node are of type [*PeerError]. The others are of this node, such as a full disk.
//
// # Concurrency
//
// The methods of a Source may be called by several goroutines. A Copier belongs to one goroutine,
// except for Progress.
package copying
