// Package iex decodes captures of the market data of IEX, TOPS 1.6 and DEEP 1.0, into events.
//
// A capture is a pcap or pcapng file, in either byte order, of packets by Ethernet (with VLAN tags or
// without), raw IP or Linux's cooked capture; IPv4; UDP; and in each datagram one segment
// of IEX-TP with any number of messages, little-endian, prices of four decimals. Other
// packets are passed over. A capture has one of the two feeds: of both, the first is played.
//
// Instruments are SYMBOL|IEX|24hs, in the order of their first message.
//
// # What becomes of a message
//
//	S    status of *|IEX|*: pre_open, open, post_close, closed
//	D    lists the stock; its adjusted closing price of the day before is a reference
//	H O  status of the stock: open, halt, pause, auction (an order acceptance period)
//	Q    quote (TOPS)
//	8 5  a changed level (DEEP). The levels of one event of the matching engine are one
//	     update, published with the message whose flag says that the event is complete
//	T    trade; IEX tells no aggressor
//	B    the cancel of a trade
//	X    the official closing price is a reference, as settlement price
//
// All others (I, P, E, A) say nothing of book or trades. Messages of unknown types, and bytes
// at the end of known ones, are passed over, as the specification asks.
//
// # Gaps
//
// Messages are numbered. A segment with numbers that were had is a repetition and passed over;
// where numbers are missing every instrument has a gap (sequence_gap), and so where the
// session changes in the middle (session_changed). Quotes go on with the next message. Books of
// DEEP are lost for the rest of the capture, for there is no snapshot; they begin empty where a
// session begins with its first message, and are not known in a capture that begins later.
package iex
