// Package bars counts what instruments trade: bars of six intervals and the trading day, from
// trades that may come late, be cancelled and be corrected hours later.
//
// A [Series] is one instrument. A trade costs one bar: it is counted in the second under
// way, and what that comes to is put into the longer bars when it is over. A trade that
// comes late, a cancel and a correction go to each bar at once, and where a bar was told already
// it is told again. A [Clock] says when a bar is over: it is struck at a time, and tells the bars
// that ended up to then.
//
// Kept are the bars of a trading day and of the hour after it, but those of seconds, which
// are counted again from the deals, and the deals themselves as far as there is room for them. So a cancel
// hours later finds its trade, and the bars without it.
//
// It is pure: no goroutine, no clock of its own, no I/O. Who calls it guards it.
package bars
