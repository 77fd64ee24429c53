// Package simulation tests the nodes of a cluster: leaders, standbys, edges, the stream, the store
// and the disks of all of them run in one goroutine, under a scheduler that a seed determines. It
// loses, delays, duplicates and reorders messages, kills and pauses nodes, ends connections,
// removes messages from the stream and rows from disks. Rules are checked at every step.
//
// A failure prints its seed and the end of a trace. The test TestSeed runs one schedule again.
package simulation
