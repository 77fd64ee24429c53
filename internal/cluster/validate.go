package cluster

import "time"

// This file decides which reports and batches of other nodes count. A leader uses the terms,
// positions and times of others for its own term, so an absurdly great number would stay in the
// log.

// Limits of reports and batches.
const (
	maxKnown    = 1024    // nodes whose reports are kept
	maxTerms    = 1 << 32 // terms that another node may be ahead
	maxRows     = 1 << 48 // rows that another node may be ahead
	clocksApart = int64(24 * time.Hour)
	maxTime     = 1 << 62 // Unix ns, in the year 2116
)

// validReport reports whether a node of the cluster may have sent a report. It removes times that
// are too far ahead of this machine's clock from the report.
func (n *Node) validReport(r *Report) bool {
	f := &n.follower
	term, highest := max(f.Highest, f.History.Newest().Number), max(r.Highest, r.History.Newest().Number)
	latest := latestTime(n.wall, f.Time)
	if r.Time < 0 || r.Time > latest || r.TimeTerm > highest {
		r.Time = 0
	}
	if r.Seen < 0 || r.Seen > latest {
		r.Seen = 0
	}
	upto := max(r.Position, r.History.base())
	switch {
	case r.History.Epoch != "" && len(r.History.Starts) == 0:
		return false
	case r.Node == "" || len(r.Node) > maxName || len(r.History.Epoch) > maxName || len(r.History.Starts) > maxStarts:
		return false
	case highest > term && highest-term > maxTerms, upto > f.Position && upto-f.Position > maxRows:
		return false
	}
	return r.History.ordered()
}

// validBatch reports whether a leader may have appended a batch.
func (f *follower) validBatch(b *Batch) bool {
	term := max(f.Highest, f.History.Newest().Number)
	if n := b.ID.Term.Number; n > term && n-term > maxTerms {
		return false
	}
	return b.Time >= 0 && b.Time <= latestTime(f.wall, f.Time)
}

// latestTime returns the latest time of the log that a node accepts. wall is the time of its
// machine, and seen the newest time of the log that it has seen. A node that has seen none, 0,
// accepts what the first sequencer says.
func latestTime(wall, seen int64) int64 {
	if seen == 0 {
		return maxTime
	}
	return max(wall, seen) + clocksApart
}

// keep keeps the newest report of a node. It returns false if too many nodes report.
func (n *Node) keep(now time.Duration, r Report) bool {
	if _, ok := n.known[r.Node]; !ok && len(n.known) >= maxKnown {
		for name, x := range n.known {
			if now-x.at >= n.cfg.Retire {
				delete(n.known, name)
				delete(n.leader.heard, name)
			}
		}
		if len(n.known) >= maxKnown {
			return false
		}
	}
	r.Sources, r.SourcesAt = nil, 0 // they come with rows
	n.known[r.Node] = heardReport{r, now}
	return true
}
