// Package dbn decodes files of the Databento Binary Encoding, versions 1 to 3, into events.
//
// A file is a header, which names the dataset, the schema and the symbols, and records
// of fixed size, little-endian. These are played:
//
//	MBO            orders; trades (action T)
//	MBP-10         ten levels a side, as a snapshot and then what changed; trades
//	MBP-1, TBBO    quotes, where they changed; trades. The quote of a TBBO record was before its trade
//	trades         trades
//	status         trading status
//	symbol mapping of live data: what an instrument is called
//
// Records of other kinds are passed over, as are those that tell of the same trades a second
// time where kinds are mixed: the first of MBO, MBP-10, MBP-1, trades that the beginning of
// the file has is played. A record of a kind that is not known is passed over by its length.
//
// An instrument is SYMBOL|VENUE|TERM: the symbol of the file's own mapping on the day of the
// record, or the number of the instrument where there is none; the dataset's name up to the
// point, with the publisher's number behind another point for all but the first publisher;
// and the term 24hs for American shares, FUT for futures, OPT for options, SPOT otherwise.
//
// Prices are multiples of 1e-9, events hold 1e-8: a record with a price between is left out
// and counted as inexact. Where it was of a book, the book is lost until it is whole again.
//
// # Books
//
// Actions add, cancel, modify and clear change the book of MBO; trade and fill do not, since
// a cancel follows them. A clear begins a book that is known, empty; before it nothing is known.
// An order that is not there, or is there twice, loses the book (KindGap, reason
// unknown_order or duplicate_order) until the next clear, and so does the flag
// F_MAYBE_BAD_BOOK (upstream_gap). Records with F_TOB are of no single order and are passed
// over. Events up to a record with F_LAST are to be seen at once.
package dbn
