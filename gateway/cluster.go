package gateway

import (
	"context"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/internal/cluster/host"
	"github.com/ruedahq/rueda/internal/engine/hub"
)

// buildNode builds the node of a cluster.
func (g *Gateway) buildNode() (err error) {
	if g.setup == nil {
		return nil
	}
	g.node, err = host.New(host.Config{
		Setup: g.setup, Hub: g.hub, Journal: g.journal, Members: host.DatabaseMembers{Cluster: g.cfg.Cluster.Name, DB: g.auditLog},
		Numbering: host.Numbering{Hub: g.numberingHub, Run: g.number}, OnShow: g.show, OnEpoch: g.registry.EndEpoch, Users: g.registry, Logger: g.log})
	return err
}

// numberingHub returns the hub that numbers while this node leads.
func (g *Gateway) numberingHub(log hub.RowLog) *hub.Hub {
	s := &g.cfg.Stream
	return hub.New(hub.Config{Log: log, Now: g.node.LogClock, Markets: g.hub.Markets(), TradesKept: s.TradesKept, RecentBytes: s.TradesBytes, Memory: s.memory(), Logger: g.log})
}

// number runs the feeds while this node leads.
func (g *Gateway) number(ctx context.Context, h *hub.Hub, sink feed.Sink) error {
	group, err := g.newFeeds(h, sink)
	if err != nil {
		return err
	}
	g.feeds.Store(group)
	defer g.feeds.Store(nil)
	return group.Run(ctx)
}

// runMarket runs the feeds, or the node of a cluster that runs them when it leads.
func (g *Gateway) runMarket(ctx context.Context) error {
	if g.node != nil {
		return g.node.Run(ctx)
	}
	return g.feeds.Load().Run(ctx)
}

// Leads reports whether this node of a cluster is the sequencer now.
func (g *Gateway) Leads() bool { return g.node.Leads() }

// show ends the sockets when the node must not show rows any more.
func (g *Gateway) show(allowed bool) {
	if !allowed {
		g.registry.Drain(0)
	} else if !g.draining.Load() {
		g.registry.Admit()
	}
}
