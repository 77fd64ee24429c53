// Package itch decodes files of NASDAQ TotalView-ITCH 5.0, order by order.
//
// A file is a sequence of messages, each preceded by its length in two bytes. Some files have zeros
// there, so the length is determined by the message's type; if the two bytes have any other value,
// the file is damaged. A length of zero with nothing after it marks the end. All numbers are
// big-endian; prices have four decimals.
//
// Times are nanoseconds after midnight in New York. The file does not contain its date, so Config
// has the time of midnight.
//
// # Messages
//
//	S    status of *|NASDAQ|*: pre_open, open, post_close, closed
//	R    lists the stock as SYMBOL|NASDAQ|24hs
//	H h  status of the stock; it is unknown until the first one
//	A F  a new order
//	E C  a trade, unless C is marked as not printed, and a fill of the order
//	X    a modified order, or a deleted one if nothing remains
//	D    a deleted order
//	U    an order that replaces another one
//	P    a trade of a hidden order; the aggressor is unknown
//	Q    a trade, if the cross traded: conditions opening_cross, closing_cross, halt_cross
//	B    the cancellation of a trade, if it is among the latest four million
//
// All others (L, V, W, Y, K, J, I, N, O) do not concern book or trades and are skipped. Messages of
// unknown types are skipped as unsupported. Trade ids are match numbers. The aggressor of E and C
// is on the other side of the order.
//
// # Incomplete files
//
// A file that begins with the start of messages (S, O) covers a whole day, and its books begin
// empty. Any other file covers part of a day. Its books are unknown, so only trades are played,
// without those of orders that were added before the file begins.
//
// In a whole day everything must be consistent. A time that goes back, a duplicate order id, a
// message of an unknown order or a fill larger than its order ends the file with an error.
package itch
