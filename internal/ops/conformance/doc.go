// Package conformance tests client programs. It runs a gateway with a scripted market behind a
// proxy that injects faults, starts the program as a client, and judges what it prints.
//
// # The program
//
// The program receives its task in environment variables:
//
//	RUEDA_URL          addresses of the gateway, separated by commas; the client may use any
//	RUEDA_USERNAME     name and password of the login
//	RUEDA_PASSWORD
//	RUEDA_INSTRUMENTS  identifiers, separated by commas: subscribe to their trades and books
//	RUEDA_SESSION      the session name of the connection
//	RUEDA_FOLDER       an empty folder, in which the client may keep its tokens
//
// It prints a JSON object a line for what its user would see:
//
//	{"event":"trade","instrument":"A|TEST|CI","n":7,"price":"100.5","size":"3"}
//	{"event":"book","instrument":"A|TEST|CI","n":9,"bids":[["100","5"]],"asks":[["101","2"]]}
//	{"event":"invalid","instrument":"A|TEST|CI"}
//	{"event":"lost","instrument":"A|TEST|CI","from":8,"to":12}
//	{"event":"lost","instrument":"A|TEST|CI","reason":"epoch_changed"}
//	{"event":"rejected","instrument":"A|TEST|CI","reason":"not_entitled"}
//	{"event":"end","reason":"token_revoked"}
//
// A trade is printed once, and the trades of an instrument in the order of n. A book has at least
// the five best levels of each side, and is printed after each change, or after each few. Prices
// and sizes are exact decimals. invalid means that the book is not known from here to the next book
// of the instrument. lost means that the client will not get trades: those from n to n, or, with
// epoch_changed, all that it missed; after epoch_changed the numbers begin again. end means that
// the client gives up. The program then exits. It also exits within five seconds of the end of its
// standard input. Lines with other events are ignored. The client uses JSON, the default format of
// the stream; the proxy removes an offer of compression.
//
// # Concurrency
//
// Run uses the calling goroutine for the script of a case. The gateway, the proxy and the reader of
// the program's output have goroutines of their own, which end before Run returns.
package conformance
