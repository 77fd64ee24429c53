// Package bars computes bars of six intervals and the figures of the trading day from trades that
// may be late, cancelled or corrected hours later.
//
// A [Series] holds the bars of one instrument. [Series.Trade] adds a trade to the current second
// only, and a second is added to the longer bars when it is over, so a trade costs one bar. A late
// trade, a cancellation or a correction changes all its bars at once; a bar that was sent before is
// sent again. A [Clock] determines when bars end: call [Clock.Close] with the time, and it sends
// the bars that have ended. Bars are sent by calling a [SendFunc].
//
// A Series keeps the bars of a trading day and for an hour after it. Bars of seconds are computed
// again from the trades, which are kept as far as memory allows. So a cancellation hours later
// finds its trade, and the bars without it.
//
// This package is pure: no goroutines, no clock of its own, no I/O. Its types are not locked; the
// caller must guard them.
package bars
