// Package lobster decodes the files of LOBSTER (lobsterdata.com), of one NASDAQ stock and day, into
// events.
//
// The message file is lines of
//
//	time,type,order,size,price,direction
//
// without a head: seconds after midnight in New York with up to nine decimals, the price in
// units of 1e-4 dollars, the direction of the order (1 buys, -1 sells). More columns may
// follow. The order book file, where there is one, has a line for each of them, the book
// after it: ask price, ask size, bid price, bid size for each level, best first.
//
// Neither file says which stock and day it is of: Config does.
//
// # What becomes of a line
//
//	1    a new order
//	2    an order with a size taken off it
//	3    a deleted order
//	4    a trade, the aggressor on the other side of the order, and a fill of it
//	5    a trade of a hidden order
//	6    a trade of a cross (condition cross)
//	7    status: halt (price -1), quoting (0), open (1)
//
// # Books
//
// With an order book file the book is that of the file, as a snapshot and then what changed
// by levels, as deep as the file has it. Without one, files that begin within the day, as most do, change orders
// that nobody knows; their books cannot be had, and they play trades and status alone. A file in
// which every order is known (Config.Whole) plays its orders.
package lobster
