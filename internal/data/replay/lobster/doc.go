// Package lobster decodes the files of LOBSTER (lobsterdata.com) for one NASDAQ stock and day.
//
// The message file has lines of
//
//	time,type,order,size,price,direction
//
// The time is in seconds after midnight in New York. It usually has nine decimals; more are
// rounded. The price is in units of 1e-4 dollars. The direction is that of the order (1 buys, -1
// sells). More columns may follow. A first line whose first field is no number names the columns
// and is skipped.
//
// The order book file, if there is one, has the book after each of these lines: ask price, ask
// size, bid price and bid size of each level, best first.
//
// The files do not contain their stock and day; Config has them.
//
// # Lines
//
//	1    a new order
//	2    a partial cancellation of an order
//	3    a deleted order
//	4    a trade, with the aggressor on the other side of the order, and a fill of it
//	5    a trade of a hidden order
//	6    a trade of a cross (condition cross)
//	7    status: halt (price -1), quoting (0), open (1)
//
// # Books
//
// With an order book file, its book is played to its full depth: a snapshot, then the changed
// levels. Without one, most files begin within the day and change orders that are unknown. Their
// book is not available, and only trades and status are played. A file in which every order is
// known (Config.Complete) plays its orders.
package lobster
