// Package feed is the contract between an exchange feed and the stream.
//
// A feed is a Source: one blocking call that pushes normalised events into a Sink
// and knows nothing of who is behind it. feedtest.Run checks a Source against
// the rules written here.
package feed

import (
	"context"

	"github.com/ruedahq/rueda/market"
)

// Source is a running connection to an exchange, simulated, recorded or real.
type Source interface {
	// Run defines instruments in sink and publishes their events until ctx ends
	// or the source has no more. It returns nil at the end of a finite source,
	// ctx.Err() (or nil) when ctx ended, otherwise what went wrong, with the
	// place (file, line, offset; address) in its text. Every goroutine it
	// started has ended when it returns. The caller restarts it or not.
	//
	// Rules: events of one instrument are published in order by one goroutine at
	// a time; sizes are absolute, never deltas; where something was lost the
	// source says KindGap and later KindSnapshot; a full sink is waited for.
	Run(ctx context.Context, sink Sink) error
}

// Sink takes events. Its methods are safe for concurrent use.
type Sink interface {
	// Define lists an instrument, or changes the definition of a listed one,
	// and returns the handle its events must carry. The identifier of a
	// pattern *|MARKET|* stands for the market as a whole and takes KindStatus
	// alone. The error says what is wrong with the definition.
	Define(market.Instrument) (market.Handle, error)

	// Publish applies events in order; a batch of up to 64 is atomic to readers. It may
	// wait for the sink's own work, never for a client. It keeps neither the
	// slice nor what it points to. An event that breaks the contract (unknown
	// handle, negative or unrepresentable size or price, unordered snapshot, levels
	// mixed with single orders) is refused on its own and the rest is applied; the
	// error joins what was refused, as *market.Refused values. A book may be locked
	// or crossed, as in an auction.
	Publish([]market.Event) error
}
