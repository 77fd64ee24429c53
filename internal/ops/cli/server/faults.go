package server

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// simFault returns the name of a market fault in the simulated exchange.
func simFault(name string) string {
	switch name {
	case wire.SimCrossedBook:
		return "crossed"
	case wire.SimCloseMarket:
		return "close"
	case wire.SimFeedGap:
		return "gap"
	case wire.SimFeedStall:
		return "stall"
	case wire.SimListing:
		return "list"
	}
	return name
}

// exchangeSpeed returns a gateway.Config.Speed that changes the speed of the simulated exchange.
func exchangeSpeed(exchange *sim.Source) func(speed market.Size) (market.Size, error) {
	return func(speed market.Size) (market.Size, error) {
		now, err := exchange.Speed(float64(speed) / market.Scale)
		return market.Size(math.Round(now * market.Scale)), err
	}
}

// exchangeFaults returns a gateway.Config.Faults that passes requests to the simulated exchange.
func exchangeFaults(exchange *sim.Source) func(name string, id market.InstrumentID) (string, error) {
	return func(name string, id market.InstrumentID) (string, error) {
		all := sim.Faults()
		i := slices.IndexFunc(all, func(f sim.Fault) bool { return f.Name == simFault(name) })
		if name == wire.SimKillLeader {
			return "", &wire.Fault{Reason: wire.UnsupportedOption, Msg: "This gateway is not a node of a cluster", Hint: "rueda-cluster dev runs one"}
		}
		if i < 0 {
			return "", fmt.Errorf("%s: %w", name, sim.ErrUnknownFault)
		}
		struck, err := exchange.Trigger(all[i].Name, id)
		switch {
		case errors.Is(err, sim.ErrTooMany):
			return "", &wire.Fault{Reason: wire.RateLimited, Msg: "Too many faults at once", RetryAfter: 1}
		case errors.Is(err, sim.ErrNotNow):
			return "", &wire.Fault{Reason: wire.UnsupportedOption, Msg: err.Error(), Hint: "Retry later, or with another instrument"}
		case err != nil:
			return "", err
		}
		return struck.String() + ": " + all[i].Description, nil
	}
}
