package main

import (
	"context"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/market"
)

// clock is a feed with one instrument. It publishes trades whose price is the current second.
type clock struct{}

var _ feed.Source = clock{}

// Run implements feed.Source.
func (clock) Run(ctx context.Context, sink feed.Sink) error {
	tick, err := sink.Define(market.Instrument{
		ID:   market.InstrumentID{Symbol: "TICK", Market: "CLOCK", Term: "CI"},
		Name: "The time of day", Kind: "index", NoBook: true,
	})
	if err != nil {
		return err
	}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-second.C:
			err := sink.Publish([]market.Event{{
				Kind: market.KindTrade, Handle: tick, Time: now.UnixNano(),
				Price: market.Price(now.Second()) * market.Scale, Size: market.Scale,
			}})
			if err != nil {
				return err
			}
		}
	}
}
