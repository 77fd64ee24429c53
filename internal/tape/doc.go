// Package tape keeps what a sequence told last: the newest trades, statuses or bars of an
// instrument as compact rows, from which their messages are encoded again, byte for byte,
// for a client that resumes.
//
// A [Tape] gives each row that is added the next N. Rows lie in chunks that are dropped whole, the
// oldest first. A chunk's rows are never written twice, so that what After gave may be read
// without the lock that guards the tape, and outlives what is dropped.
//
// A [Row] is made of an event, or of a row of the journal (RowOf), and the one becomes the other
// again (Put, EventOf). Message encodes it as it was told; AppendRow does so for whoever reads
// the journal alone.
//
// It is pure: no goroutine, no clock, no I/O. Who calls it guards it.
package tape
