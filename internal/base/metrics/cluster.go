package metrics

import "time"

// clusterFamilies are the families of a node of a cluster.
func clusterFamilies() []family {
	const group = "Cluster"
	ofCluster := func(get func(c *Cluster) float64) func(*Snapshot, time.Time, *emitter) {
		return func(s *Snapshot, _ time.Time, e *emitter) {
			if s.Cluster != nil {
				e.value(get(s.Cluster))
			}
		}
	}
	return []family{
		{group, "rueda_cluster_connected", gauge, nil, "1 while this node of a cluster is connected to the log.", "See whether nats-server runs, and the log of this node (`no connection to the log of the cluster`).",
			ofCluster(func(c *Cluster) float64 { return is(c.Connected) })},
		{group, "rueda_cluster_leads", gauge, nil, "1 while this node is the sequencer. The sum over all nodes is 1.", "0 on all nodes: no sequencer runs, or NATS has no majority.",
			ofCluster(func(c *Cluster) float64 { return is(c.Leads) })},
		{group, "rueda_cluster_current", gauge, nil, "1 while this node has what the log has.", "Behind for long: its disk or network is too slow.",
			ofCluster(func(c *Cluster) float64 { return is(c.Current) })},
		{group, "rueda_cluster_term", gauge, nil, "Number of the term of the newest sequencer. It increases at each takeover.", "Many takeovers: a lease that is too short for the machines or the network.",
			ofCluster(func(c *Cluster) float64 { return float64(c.Term) })},
		{group, "rueda_cluster_behind_messages", gauge, nil, "Messages of the log that this node has not handled.", "See `rueda_cluster_current`.",
			ofCluster(func(c *Cluster) float64 { return float64(c.Behind) })},
		{group, "rueda_cluster_lag_seconds", gauge, nil, "This machine's clock minus the log's time in the newest batch of this node, with or without rows.", "Above 1 on all nodes: no sequencer. On one node: it is behind, or its clock differs.",
			ofCluster(func(c *Cluster) float64 { return c.Lag.Seconds() })},
		{group, "rueda_cluster_lease_age_seconds", gauge, nil, "Time since the sequencer renewed its lease, as far as this node knows.", "Longer than the lease: NATS is slow to write the lease. If `rueda_cluster_lag_seconds` grows too, another node should have taken over: see `rueda status` on the nodes that may be the sequencer.",
			ofCluster(func(c *Cluster) float64 { return c.LeaseAge.Seconds() })},
		{group, "rueda_cluster_queued_bytes", gauge, nil, "Bytes of rows of the sequencer that the log does not have yet.", "Above 4 MiB feeds wait: the disks of NATS are too slow.",
			ofCluster(func(c *Cluster) float64 { return float64(c.Queued) })},
		{group, "rueda_cluster_days_differ", gauge, nil, "Closed days of the journal whose rows differ from those of another node, or cannot be read.",
			"Above 0: a journal was changed or damaged. The log has the day, the node and the next step (`a closed day of the journal differs between nodes`).",
			ofCluster(func(c *Cluster) float64 { return float64(c.DaysDiffer) })},
		{group, "rueda_cluster_days_missing", gauge, nil, "Closed days that this new node has not copied yet.",
			"Falls to 0 while the node serves clients. If it does not, see the log (`earlier days of the journal are missing`).",
			ofCluster(func(c *Cluster) float64 { return float64(c.DaysMissing) })},
	}
}
