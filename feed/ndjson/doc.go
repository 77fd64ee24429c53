// Package ndjson is a feed over TCP: producers connect and send one JSON object
// a line, in the shape of the wire's own data messages (see wire.Line).
//
//	$ nc 127.0.0.1 9000
//	{"type":"F","I":"GGAL|BYMA|24hs","currency":"ARS","price_decimals":2,"size_decimals":0}
//	{"type":"O","I":"GGAL|BYMA|24hs","R":true,"B":[[7049.5,300]],"A":[[7050,1200]]}
//	{"type":"T","I":"GGAL|BYMA|24hs","P":7050,"Z":120,"G":"B"}
//
// Lines are published as they come; what has come together is published
// together. Nothing is answered to a good line.
//
// # Definitions
//
// An instrument is defined by an F line before anything is said of it; another F
// changes the definition. Definitions hold for all producers, until Run ends.
// Quotes are made from the book unless own_quotes or no_book is true in F; Q lines
// are left out where they are. Books are stale until their first O line with R:true.
//
// # Bad lines
//
// A line that cannot be taken is skipped, and answered on the same connection:
//
//	{"type":"Error","code":400,"reason":"bad_field","msg":"line 17: Z must be above 0","retry":false,"line":17}
//
// Reasons are bad_json, bad_message, bad_field, bad_instrument, unknown_instrument
// (not defined), and message_too_big (longer than 1 MiB). An event that the sink
// refuses is a bad_field. After too many bad lines in a row comes too_many_failures,
// and the connection is closed; overloaded closes it at once where there are too
// many producers. A producer that does not read its answers is closed when they can
// no longer be written.
//
// # Loss
//
// Subscribers of an instrument are sent a gap, and its book is stale (KindGap) until its next O line with R:true:
//
//   - where SQ, if given, leaves numbers out between two O lines of an instrument;
//   - where an O line of it was skipped;
//   - where a producer that sent O lines of it has disconnected;
//   - where a Gap line says so.
//
// SQ counts by connection, instrument and channel (T X C; Q; O; H). It must rise,
// but an O line with R:true may begin anew. A hole in any channel is answered with a
// Warning of reason sequence_gap; those of trades, quotes and status are a gap (KindStatus) that
// leaves the book as it is, and so is the end of a producer that sent no O lines of an instrument
// whose market others feed. When the last producer of a market has gone, the market's feed is down
// (status feed_down) until one returns. No traffic is no fault; a dead peer is
// found by TCP keep-alive within half a minute.
//
// # Security
//
// Lines are neither encrypted nor authenticated: whoever can connect can publish
// any price. So the address must be of the loopback interface unless
// Config.Insecure says otherwise.
//
// # Concurrency
//
// Run accepts on the goroutine that calls it. It starts one goroutine a connection
// and one that closes them all when the context ends, and waits for every one.
// Producers publish under one mutex, desk.mu, so that the events of an instrument
// are in order whoever sends them. Source.mu is taken last: no other lock is taken
// while it is held. Stats and Addr may be called from any goroutine.
package ndjson
