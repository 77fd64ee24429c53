// Package tokens is the program of "rueda bench auth": a gateway that gives out tokens, a bare program that does the
// least which that needs, and the clients who ask. Each runs in a process of its own.
//
// The bare program is what a refresh cannot do without: one transaction that reads the presented token, adds its successor, ends
// its parent and notes the family, committed to the disk before the answer; one signature; one answer over HTTP by
// net/http. It checks nothing, limits nothing and keeps no log.
package tokens
