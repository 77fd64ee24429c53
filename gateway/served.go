package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/market"
)

// maxUnserved bounds how many rights warnUnserved logs.
const maxUnserved = 20

// warnUnserved logs the rights in the database that have no effect: those for a delay or a market
// that is not configured.
func (g *Gateway) warnUnserved(ctx context.Context, users *local.Base) {
	granted, err := users.Granted(ctx)
	if err != nil {
		g.log.Warn("rights not checked", "error", err)
		return
	}
	logged := 0
	for _, e := range granted {
		known := e.Market == "*" || len(g.cfg.Markets) == 0 || slices.ContainsFunc(g.cfg.Markets, func(m market.Market) bool { return m.ID == e.Market })
		why := ""
		switch {
		case e.Delay != 0 && !slices.Contains(g.cfg.Stream.Delays, time.Duration(e.Delay)*time.Second):
			why = "its delay is not in stream.delays"
		case !known:
			why = "the market is not configured, and exists only if a feed lists it"
		}
		if why == "" || !e.Until.IsZero() && !time.Now().Before(e.Until) {
			continue
		}
		if logged++; logged > maxUnserved {
			g.log.Warn("more rights are not served")
			return
		}
		g.log.Warn("a right is not served", "reason", local.Describe(e)+": "+why)
	}
}
