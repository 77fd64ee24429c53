// Package tokens has the programs of "bench auth": a gateway that issues tokens, a bare
// program that does the minimum for that, and the clients. Each runs in its own process.
//
// The bare program does only the work that a refresh requires: one transaction that reads the
// presented token, adds its successor, ends its parent and updates the family, committed to disk
// before the answer. In addition it makes one signature and one HTTP response by net/http. It
// checks nothing, has no limits and no log.
package tokens
