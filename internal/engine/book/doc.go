// Package book maintains an order book and computes what its readers must be sent, whether they see
// all levels or some, at every change or now and then.
//
// A [Book] receives levels or single orders, depending on what its feed sends first. A snapshot
// with levels switches it back to levels. [Book.Update] and [Book.Order] append a [Change] for each
// level they change, and [Compact] sorts the changes for a message. A book that returns an error is
// unchanged, except after [ErrSum]: its content must then not be published any more.
//
// A [View] stores what readers of a number of levels, or of a conflated book, were sent last.
// [View.Sees] reports whether changes concern them, and [View.Advance] computes what to send: for a
// limited depth the levels that entered and left it, for a conflated book the levels that differ.
// [Levels] holds lists of levels, best first, and reuses their memory.
//
// Package hub numbers the messages, package tier encodes them, and package market defines levels.
// This package is pure: no goroutines, no clock, no I/O. Its types are not locked; the caller must
// guard them.
package book
