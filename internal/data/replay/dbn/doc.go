// Package dbn decodes files of the Databento Binary Encoding, versions 1 to 3.
//
// A file consists of a header, which names the dataset, the schema and the symbols, and of
// little-endian records of fixed size. These are played:
//
//	MBO             books, from their orders; trades (action T)
//	MBP-10          ten levels per side, as a snapshot and then changes; trades
//	MBP-1, TBBO     quotes that change; trades. In TBBO the quote precedes its trade
//	trades          trades
//	status          trading status; it is unknown until the first record of the instrument
//	symbol mapping  of live data: the symbol of an instrument
//
// Records of other types are skipped by their length. If types are mixed, only the first of MBO,
// MBP-10, MBP-1, trades that the beginning of the file contains is played. The others are skipped:
// as repeated if their instrument has records that are played, else as unsupported, which is a
// loss. A note has their number by schema.
//
// An instrument is SYMBOL|VENUE|TERM. SYMBOL comes from the file's mapping for the day of the
// record, or else is the number of the instrument. VENUE is the name of the dataset up to the
// point; for all but the first publisher, a point and the publisher's number follow. TERM is 24hs
// for American shares, FUT for futures, OPT for options, and SPOT otherwise.
//
// Prices in the file are multiples of 1e-9, prices in events of 1e-8. A record with a price in
// between is skipped and counted as inexact. If it changes a book, the book is stale until it is
// complete again.
//
// # Books
//
// The actions add, cancel, modify and clear change the book of MBO. Trade and fill do not, because
// a cancel follows them. A clear starts a known, empty book, and so does the first record with
// F_SNAPSHOT, because not all snapshots begin with a clear. Before it the book is unknown. An
// unknown or duplicate order makes the book stale (KindGap, reason unknown_order or
// duplicate_order) until the next clear or snapshot, and so does the flag F_MAYBE_BAD_BOOK
// (upstream_gap).
// Records with F_TOB do not describe a single order and are skipped.
//
// # Events
//
// The records of an instrument up to one with F_LAST are one event of the exchange. Nothing of an
// event of MBO is published before its end: first its trades, and then the levels that it has
// changed, with the newest times of its records. A snapshot is published as one whole book. With
// Config.Orders each record is an event of its own instead.
//
// An event ends without F_LAST where a snapshot ends. A clear is an event if nothing follows within
// a second, and so are trades, which change no book. In a file that has had no F_LAST yet, every
// event ends when both times of a record differ from those of the record before. An event is too
// long if it lasts longer than a second, or has more than 4,096 trades or 8,192 changed levels. Its
// trades are then published as they come, and the book is stale (KindGap, reason unfinished_event)
// until the end of the event, which brings the whole book. If the file does not end an event, its
// trades are played, and its other records are skipped and counted as incomplete.
//
// Files of levels (MBP) contain only records that change these levels, and may lack the last one of
// an event. Their trades are published at once. The levels of a record without F_LAST are published
// when the time advances, unless another record of the event replaces them.
package dbn
