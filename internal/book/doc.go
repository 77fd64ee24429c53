// Package book is an order book on its way to readers: what an event changes in it, and what
// those changes come to for one who sees some of its levels, or sees it now and then.
//
// A [Book] is fed by levels or by single orders, whichever its feed begins with; a snapshot
// of levels makes it one of levels again. Each act appends the [Change]s that it made, which Tidy
// brings into the order of a message. A book that an act returns an error for is as it was,
// but for [ErrSum]: what it holds from then on is not to be told.
//
// A [View] is what readers of a number of levels, or of a conflated book, were told last. It says
// whether changes concern them, and what they are to be told now: of some levels what left and came into
// view, of a conflated book what differs after all. [Levels] are lists of levels, best first, whose
// memory is used again.
//
// Who numbers, encodes and sends is package stream; the levels themselves are package market's.
// It is pure: no goroutine, no clock, no I/O. Who calls it guards it.
package book
