// Package ndjson implements a feed over TCP or a Unix socket. Producers connect and send one JSON
// object per line, in the format of the data messages of the wire protocol (see wire.Line).
//
//	$ nc 127.0.0.1 9000
//	{"type":"Hello","token":"..."}
//	{"type":"F","I":"GGAL|BYMA|24hs","currency":"ARS","price_decimals":2,"size_decimals":0}
//	{"type":"O","I":"GGAL|BYMA|24hs","R":true,"B":[[7049.5,300]],"A":[[7050,1200]]}
//	{"type":"T","I":"GGAL|BYMA|24hs","P":7050,"Z":120,"G":"B"}
//
// Lines are published as they arrive. Lines that arrive together are published in one batch. A
// valid line gets no answer.
//
// # Hello
//
// The first byte of a connection must be {, and the first line a Hello of at most 8 KiB, within
// Config.HelloTimeout. Its members are type, token and name; others are ignored. A connection
// without a valid Hello gets one Error line and is closed, and such connections are logged at most
// once a minute. A name belongs to one connection: a new one with the same name replaces it.
//
// # Resume
//
// A Hello with a member resume names the numbering of the SQ of this producer, such as a day. It is
// answered with the newest SQ of each instrument and channel that is stored with its events:
//
//	{"type":"Hello","resume":"2026-11-23","last":{"GGAL|BYMA|24hs":{"O":77,"T":1042}}}
//
// The producer defines its instruments, sends an O line with R:true for each book, and continues
// after these numbers. Lines up to them are skipped without an answer. What is stored later is
// acknowledged by lines of type Ack with a member last.
//
// # Definitions
//
// An F line defines an instrument and must precede its other lines. Another F line changes the
// definition. The instrument belongs to this producer until it disconnects; lines of others about
// it are rejected (forbidden). The status of a market as a whole belongs to the first producer that
// sends one. Quotes are derived from the book unless F has own_quotes or no_book set to true; if
// they are derived, Q lines are ignored. A book is stale until its first O line with R:true.
//
// # Invalid lines
//
// An invalid line is skipped and answered on the same connection:
//
//	{"type":"Error","code":400,"reason":"bad_field","msg":"line 17: Z must be above 0",
//	 "retry":false,"line":17}
//
// Reasons are bad_json, bad_message, bad_field, bad_instrument, unknown_instrument (not defined on
// this connection), forbidden and message_too_big (longer than 1 MiB). An event that the sink
// rejects is a bad_field with the members refused (the cause as a word) and instrument. After too
// many invalid lines in a row the producer gets too_many_failures, and the connection is closed. If
// too many producers are connected, a new one gets overloaded and is closed at once. A producer
// that does not read its answers is closed when they can no longer be written.
//
// # Loss
//
// Subscribers of an instrument receive a gap, and its book is stale (KindGap) until its next O line
// with R:true:
//
//   - if SQ, when given, skips numbers between two O lines of the instrument (sequence_gap);
//   - if an O or Gap line of the instrument was skipped (bad_line), or an O line rejected
//     (crossed_book, event_refused);
//   - if a skipped line does not say which instrument it concerns. This is a gap of all instruments
//     that its producer has defined (unreadable_line);
//   - if a producer that sent O lines of the instrument has disconnected (producer_gone);
//   - if a Gap line says so.
//
// If another line of an instrument was skipped or rejected, subscribers receive a gap (KindStatus)
// that leaves the book unchanged.
//
// SQ counts per connection, instrument and channel (T X C; Q; O; H). It must increase, but an O
// line with R:true may start again at any number. A sequence gap in any channel is answered with a
// Warning of reason sequence_gap. A gap in trades, quotes or status is published as a gap
// (KindStatus) that leaves the book unchanged. So is the end of a producer that sent no O lines of
// an instrument, if other producers feed its market. When the last producer of a market
// disconnects, the market's feed is down (status feed_down) until a producer returns. A silent
// producer is not an error; TCP keep-alive detects a dead peer within 30 seconds.
//
// # Security
//
// A producer can publish any price. Config.Token, a client certificate or the mode of a Unix socket
// therefore decides who may be one. The first byte excludes web pages, which can make a browser
// send requests to any address. Without TLS, the address must be on the loopback interface unless
// Config.Insecure is set.
//
// # Concurrency
//
// Run accepts connections on the goroutine that calls it. It starts one goroutine per connection,
// another one that acknowledges numbers if the connection resumes, and one that closes all
// connections when the context ends, and waits for all of them. Producers publish under one mutex,
// registry.mu, so that the events of an instrument are in order. Books are checked under it,
// immediately before their lines are published. Source.mu is taken last: no other lock is taken
// while it is held. Stats and Addr may be called from any goroutine.
package ndjson
