// Package dayhash compares the closed days of the journals of a cluster. All nodes have the same
// rows, so a day has the same hash on each of them. A different hash means that a journal was
// changed, or that a program has an error.
//
// Each node reads its closed days again, one after the other and slowly, because a file can change
// after its day was closed: that is a [Checker]. It sends the hashes to the others. A [Comparison]
// finds the days on which they differ.
//
// # Concurrency
//
// A Checker belongs to one goroutine. The methods of a Comparison may be called by several.
package dayhash
