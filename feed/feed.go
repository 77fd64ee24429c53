// Package feed defines the contract between a market data feed and the gateway.
//
// A feed implements [Source]: one blocking call that publishes normalised events to a [Sink]. It
// knows nothing about the subscribers of its data. feedtest.Run checks that a Source follows the
// rules below.
package feed

import (
	"context"

	"github.com/ruedahq/rueda/market"
)

// Source is a connection to an exchange: simulated, recorded or real.
type Source interface {
	// Run defines instruments in sink and publishes their events until ctx ends or the source has
	// no more. It returns nil at the end of a finite source, and ctx.Err() or nil if ctx ended. Any
	// other error says what failed and where (file and line, offset or address). All goroutines
	// that Run started have ended when it returns. The caller decides whether to call Run again.
	//
	// Rules: One goroutine at a time publishes the events of an instrument, in order. Sizes are
	// absolute, never deltas. After a loss the source publishes KindGap and, later, KindSnapshot.
	// If Publish blocks, the source waits.
	Run(ctx context.Context, sink Sink) error
}

// Sink receives events. Its methods are safe for concurrent use.
type Sink interface {
	// Define lists an instrument, or changes the definition of a listed one, and returns the handle
	// that its events must carry. An identifier *|MARKET|* stands for the market as a whole, which
	// accepts only KindStatus. Define returns an error for an invalid definition.
	Define(market.Instrument) (market.Handle, error)

	// Publish applies events in order. Readers see a batch of up to 64 events at once. Publish may
	// wait for the sink's own work, but never for a client. It does not keep the slice or anything
	// it points to. Publish rejects each event that breaks the contract and applies the others: one
	// with an unknown handle, a negative or inexact size or price, an unsorted snapshot, or levels
	// mixed with single orders. The error then joins one *market.Refused for each rejected event. A
	// book may be locked or crossed, as in an auction.
	Publish([]market.Event) error
}
