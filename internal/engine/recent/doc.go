// Package recent keeps the newest trades, statuses or bars of an instrument as compact rows, from
// which their messages can be encoded again, byte for byte, for clients that resume.
//
// A [Rows] assigns the next N to each row that is added. [Rows.After] returns the rows after an N,
// and [Rows.Seek], [Rows.Before] and [Rows.Find] look up an N by position, time and trade id. Rows
// are stored in chunks; the oldest chunk is dropped as a whole. A stored row never changes, so the
// result of After may be read without the lock that guards the Rows, and stays valid after rows are
// dropped.
//
// A [Row] is made from a row of the journal ([RowOf]). [Row.Message] encodes the message as it was
// sent. [AppendRow] does the same directly from a row of the journal.
//
// This package is pure: no goroutines, no clock, no I/O. Its types are not locked; the caller must
// guard them.
package recent
