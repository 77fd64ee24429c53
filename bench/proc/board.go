package proc

import "sync/atomic"

// Board is a page of memory shared by a load program and a publisher. The publisher reads the
// progress of the receivers, which a real feed would see as back-pressure. It is mapped from a
// file.
type Board struct {
	// Received is the total number of messages received by all connections.
	Received atomic.Uint64
	// Trades is how many of them are trades, none of which may be lost.
	Trades atomic.Uint64
	// Through is the newest N that all connections have received, if all have one instrument.
	Through atomic.Uint64
}
