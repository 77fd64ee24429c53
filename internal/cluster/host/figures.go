package host

import "github.com/ruedahq/rueda/internal/metrics"

// Figures returns the figures of the node; nil for a nil Host.
func (h *Host) Figures() *metrics.Cluster {
	if h == nil {
		return nil
	}
	s := h.Status()
	return &metrics.Cluster{
		Connected: h.Connected(), Leads: h.Leads(), Current: h.Shown().Current, Term: s.Term.Number,
		Behind: s.End - min(s.End, s.Seq), Queued: s.Queued,
	}
}
