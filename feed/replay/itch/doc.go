// Package itch decodes files of NASDAQ TotalView-ITCH 5.0 into events, order by order.
//
// A file is messages one after another, each behind two bytes that hold its length. Some
// files have zeros there, so the length goes by the message's type; where the two bytes
// say something else the file is damaged. A length of zero with nothing behind it is the
// mark of the end. All numbers are big-endian, prices have four decimals.
//
// Times are nanoseconds after midnight in New York and a file holds no date: Config says
// when midnight was.
//
// # What becomes of a message
//
//	S    status of *|NASDAQ|*: pre_open, open, post_close, closed
//	R    lists the stock as SYMBOL|NASDAQ|24hs, halted until an H says otherwise
//	H h  status of the stock
//	A F  a new order
//	E C  a trade, unless C says that it is not printed, and a fill of the order
//	X    a modified order, or a deleted one where nothing is left
//	D    a deleted order
//	U    a deleted order and a new one
//	P    a trade, of an order that was hidden: no aggressor is told
//	Q    a trade, where the cross traded: conditions opening_cross, closing_cross, halt_cross
//	B    the cancel of a trade, where it is among the latest four million
//
// All others (L, V, W, Y, K, J, I, N, O) say nothing of book or trades, and are passed over.
// Trade ids are match numbers. The aggressor of E and C is on the other side of the order.
//
// # Files that are not whole
//
// A file that begins with the start of messages (S, O) is a whole day, and its books
// begin empty. Any other is a piece of a day: what rests in the books is not known, so
// that it plays trades alone, those of orders that were added before the piece began left out.
//
// In a whole day everything has to fit: a time that goes back, a second order with an
// id that is taken, a message of an order that is not there and a fill larger than the
// order end the file with an error.
package itch
