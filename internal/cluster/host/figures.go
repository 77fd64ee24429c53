package host

import (
	"cmp"
	"time"

	"github.com/ruedahq/rueda/internal/api/adminapi"
	"github.com/ruedahq/rueda/internal/base/metrics"
	"github.com/ruedahq/rueda/internal/cluster"
)

// Figures returns the figures of the node; nil for a nil Host.
func (h *Host) Figures() *metrics.Cluster {
	if h == nil {
		return nil
	}
	s := h.Status()
	return &metrics.Cluster{
		Connected: h.Connected() || h.obtaining.Load(), Leads: h.Leads(), Current: h.Shown().Current, Term: s.Term.Number,
		Behind: s.End - min(s.End, s.Seq), Queued: s.Queued, Lag: lag(&s), LeaseAge: h.since(s.Renewed),
		DaysDiffer: h.days.comparison.Differ(), DaysMissing: len(h.cfg.Journal.Earlier()),
	}
}

// Describe returns the state of the node for operators; nil for a nil Host.
func (h *Host) Describe() *adminapi.Cluster {
	if h == nil {
		return nil
	}
	s, p := h.Status(), h.cfg.Setup
	c := &adminapi.Cluster{
		Name: p.log.Cluster, Node: h.name, Role: cmp.Or(p.settings.Role, roleAll), Connected: h.Connected() || h.obtaining.Load(), Current: h.Shown().Current, Complete: s.Complete || p.settings.Role == roleSequencer,
		Leads: h.Leads(), Leader: s.Holder, Lease: p.settings.Lease.Seconds(), LeaseAge: h.since(s.Renewed).Seconds(),
		Epoch: s.Epoch, Term: s.Term.Number, Position: s.Position, Messages: s.Seq, Behind: s.End - min(s.End, s.Seq), Lag: lag(&s).Seconds(), Queued: s.Queued,
		Awaited: s.Awaited, DaysMissing: len(h.cfg.Journal.Earlier()), DaysProblem: textOf(h.earlierProblem.Load()), Nodes: []adminapi.ClusterNode{},
	}
	if err := h.Ready(); err != nil {
		c.Waits = err.Error()
	}
	for i := range s.Reports {
		r := &s.Reports[i]
		c.Nodes = append(c.Nodes, adminapi.ClusterNode{
			Name: r.Node, Clients: r.Shows, Complete: r.Complete || !r.Shows, Epoch: r.History.Epoch, Term: r.History.Newest().Number, Position: r.Position,
			Behind: s.Position - min(s.Position, r.Position), Age: h.since(s.Heard[i]).Seconds(),
		})
	}
	return c
}

// since returns the time since a time of the node's clock, in whole milliseconds.
func (h *Host) since(at time.Duration) time.Duration {
	return max(0, time.Since(h.began)-at).Truncate(time.Millisecond)
}

// lag returns this machine's clock minus the time of the log's clock in the newest batch of the
// node, in whole milliseconds. It is 0 if the node has no batch, or if its clock is behind.
func lag(s *cluster.Status) time.Duration {
	if s.LogTime == 0 {
		return 0
	}
	return max(0, time.Since(time.Unix(0, s.LogTime))).Truncate(time.Millisecond)
}

// textOf returns a text, or "" for nil.
func textOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
