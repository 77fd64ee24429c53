// Package iex decodes captures of the market data of IEX, TOPS 1.6 and DEEP 1.0.
//
// A capture is a pcap or pcapng file, in either byte order, of packets over Ethernet (with or
// without VLAN tags), raw IP or Linux cooked capture; then IPv4 and UDP. Each datagram holds one
// segment of IEX-TP with any number of messages, little-endian, with prices of four decimals. Other
// packets are skipped. If a capture has both feeds, the first one is played. Segments of the other
// one are skipped: as repeated if it is TOPS, else as unsupported.
//
// Instruments are SYMBOL|IEX|24hs, in the order of their first message.
//
// # Messages
//
//	S    status of *|IEX|*: pre_open, open, post_close, closed
//	D    lists the stock; its adjusted previous close is a reference figure
//	H O  status of the stock: open, halt, pause, auction (an order acceptance period); it is
//	     unknown until the first one
//	Q    quote (TOPS)
//	8 5  a changed level (DEEP). The levels of one event of the matching engine are one
//	     update, published with the message whose flag completes the event
//	T    trade; IEX does not publish the aggressor
//	B    the cancellation of a trade
//	X    the official closing price is the settlement price, a reference figure
//
// All others (I, P, E, A) do not concern book or trades. Messages of unknown types (as
// unsupported), and bytes at the end of known ones, are skipped, as the specification requires.
//
// # Gaps
//
// Messages are numbered. Messages with old numbers are repetitions and are skipped, unless they
// were sent later and are newer than all before: then the session has begun again. Late messages of
// a session that has ended are skipped too. Every instrument has a gap if numbers are missing
// (sequence_gap), or if the session changes or begins again in the middle (session_changed). Quotes
// continue with the next message. Books of DEEP are stale for the rest of the session, because
// there are no snapshots. They begin empty if the session begins with its first message, and are
// unknown in a capture that begins later. Messages that change an unknown book are skipped and
// counted, and so are those of an event that the file does not complete.
package iex
