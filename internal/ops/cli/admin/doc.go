// Package admin has the commands that work on the database of a gateway: user, group, keys, audit
// and report. A gateway may run meanwhile.
package admin
