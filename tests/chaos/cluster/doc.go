// Package cluster tests a cluster of rueda as a black box: three NATS servers, a PostgreSQL, two
// sequencers and two edges, each a process of its own. A TCP relay stands between each node and
// each server. Faults come by a seed, while clients check every message against the market.
package cluster
