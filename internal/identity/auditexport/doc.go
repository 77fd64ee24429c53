// Package auditexport sends the rows of the audit log to a syslog server and to a web service.
//
// Rows are sent in order, at least once, and numbered. The newest row that a receiver has is stored
// in the database, so that sending continues there after a restart or an outage. If several
// gateways share a database, one of them sends to a receiver. When it stops, another one continues.
//
// # Concurrency
//
// Run blocks until its context ends. It sends to each receiver on a goroutine of its own, and waits
// for them. A Receiver is used by one goroutine at a time. Sending holds no lock and no transaction
// of the database, so that a slow receiver delays only its own rows.
package auditexport
