package gateway

import (
	"context"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/internal/cluster/host"
	"github.com/ruedahq/rueda/internal/engine/hub"
)

// buildNode sets g.node if the gateway is configured as a node of a cluster.
func (g *Gateway) buildNode() (err error) {
	if g.setup == nil {
		return nil
	}
	g.node, err = host.New(host.Config{
		Setup: g.setup, Hub: g.hub, Journal: g.journal, Members: host.DatabaseMembers{Cluster: g.cfg.Cluster.Name, DB: g.auditLog},
		Numbering: host.Numbering{Hub: g.numberingHub, Run: g.number}, OnShow: g.show, OnEpoch: g.registry.EndEpoch, Users: g.registry, Logger: g.log})
	return err
}

// numberingHub returns a new hub, which numbers the events of feeds while this node is the
// sequencer.
func (g *Gateway) numberingHub(log hub.RowLog) *hub.Hub {
	s := &g.cfg.Stream
	return hub.New(hub.Config{Log: log, Now: g.node.LogClock, Markets: g.hub.Markets(), TradesKept: s.TradesKept, RecentBytes: s.TradesBytes, Memory: s.memory(), Logger: g.log})
}

// number runs the feeds while this node is the sequencer. They publish to sink, and h has the
// statuses of the markets.
func (g *Gateway) number(ctx context.Context, h *hub.Hub, sink feed.Sink) error {
	group, err := g.newFeeds(h, sink)
	if err != nil {
		return err
	}
	g.feeds.Store(group)
	defer g.feeds.Store(nil)
	return group.Run(ctx)
}

// runMarket runs the feeds until ctx ends. In a cluster it runs the node, which runs the feeds
// while it is the sequencer.
func (g *Gateway) runMarket(ctx context.Context) error {
	if g.node != nil {
		return g.node.Run(ctx)
	}
	return g.feeds.Load().Run(ctx)
}

// Leads reports whether this node of a cluster is the sequencer now. It returns false without a
// cluster.
func (g *Gateway) Leads() bool { return g.node.Leads() }

// show closes all sockets if the node may no longer show rows, and admits clients again when it
// may.
func (g *Gateway) show(allowed bool) {
	if !allowed {
		g.registry.Drain(0)
	} else if !g.draining.Load() {
		g.registry.Admit()
	}
}
