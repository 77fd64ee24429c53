package gateway

import (
	"cmp"
	"errors"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// faults returns the function for session.Env.Fault, or nil if this is not a development gateway.
func (g *Gateway) faults() func(string, market.InstrumentID) (string, *wire.Fault) {
	if g.cfg.Faults == nil {
		return nil
	}
	return func(name string, id market.InstrumentID) (string, *wire.Fault) {
		id = cmp.Or(id, market.InstrumentID{Symbol: "FAKE", Market: "SIM", Term: "CI"})
		msg, err := g.cfg.Faults(name, id)
		return msg, faultRefused(err)
	}
}

// injected logs that a user has requested a fault. name is the fault, and msg describes it.
func (g *Gateway) injected(user, name, msg string) {
	g.log.Info("fault on request", "user", user, "type", name, "reason", msg)
}

// faultRefused converts an error of Config.Faults to an error message for the client. It returns
// nil if err is nil.
func faultRefused(err error) *wire.Fault {
	var f *wire.Fault
	switch {
	case err == nil, errors.As(err, &f):
		return f
	case errors.Is(err, market.ErrUnknownInstrument):
		return &wire.Fault{Reason: wire.UnknownInstrument, Hint: "Only instruments of the simulated exchange have faults"}
	}
	return &wire.Fault{Reason: wire.UnsupportedOption, Msg: err.Error(), Hint: "Only the simulated exchange injects faults of the market"}
}
