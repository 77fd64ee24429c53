// Package copying copies the journal of a node of a cluster to a new node, so that a node can join
// when the log no longer has the beginning of its epoch. The copy has all days that the other
// node has, so history, resume and export of the new node serve the same rows.
//
// # The copy
//
// A new node asks all nodes for an [Offer], and chooses one of them. A [Copier] requests the files
// of its journal in pieces, one request at a time, so the new node sets the pace. The files go to a
// folder next to the journal. A file has another name until its SHA-256 is that of the original.
//
// The journal of the other node grows meanwhile, closes days and removes old ones. The Copier
// therefore lists its files again, and copies what is missing, until that is little. Then it reads
// the copy as a journal, computes the hashes of all closed days from their rows, and compares them
// with those of the other node and of all others that made an offer. At the end it writes a file
// with the state with which the node follows the log. Only a folder with that file becomes a
// journal, by [Install] at the next start of the process.
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
