package proc

import "sync/atomic"

// Board is a page of memory that a load program and a publisher share: the publisher
// reads there how far the receivers are, as a market's own gateway would by
// back-pressure. It is mapped from a file that both are told of.
type Board struct {
	// Received is how many messages all connections together have received.
	Received atomic.Uint64
	// Trades is how many of them are trades, of which nobody may miss any.
	Trades atomic.Uint64
	// Through is the newest N that every connection has received, where all
	// connections receive one instrument.
	Through atomic.Uint64
}
