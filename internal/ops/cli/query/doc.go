// Package query has the commands that ask a gateway for something and print it: accounts,
// instruments, market, quote, book, trades and bars, the stream as it is, and programs to copy.
package query
