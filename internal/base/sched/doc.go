// Package sched yields the processor between two blocks of work that is not urgent, such as history
// requests. The kernel would otherwise let the thread run for a slice of some milliseconds, and a
// message of the stream would wait for as long.
package sched
