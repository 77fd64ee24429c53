package openapi

import "github.com/ruedahq/rueda/internal/api/schema"

// clusterSchema returns the schema of adminapi.Cluster, the answer about the node and its cluster.
func clusterSchema() *schema.Schema {
	return schema.Object("A node of a cluster, and what it knows of the log and of the other nodes.",
		text("name", "Of the cluster."), text("node", "Name of the node that answers."),
		schema.Required("role", schema.Enum("", "all", "sequencer", "edge")),
		isTrue("connected", "To the log."), isTrue("current", "It has what the log has."), isTrue("complete", "It has all rows that it has shown."),
		isTrue("leads", "It is the sequencer."), text("leader", "Name of the node that holds the lease. Empty: none."),
		span("lease_seconds", "Length of the lease."), span("lease_age_seconds", "Since the lease was renewed."),
		text("epoch", ""), amount("term", "Counts the sequencers."), amount("position", "Of its newest row."),
		amount("messages", "Sequence of the newest message of the log that it has handled."), amount("behind_messages", "Messages that it has not handled."),
		span("lag_seconds", "Its clock minus the log's clock in its newest batch."), amount("queued_bytes", "Of rows that wait for the log."),
		schema.Optional("awaited", schema.Array("What it waits for before it becomes the sequencer: names of nodes, or a description.", schema.String(""))),
		schema.Required("nodes", schema.Array("The others that have reported, by name.", schema.Ref("ClusterNode"))))
}

// clusterNodeSchema returns the schema of adminapi.ClusterNode, which describes another node.
func clusterNodeSchema() *schema.Schema {
	return schema.Object("Another node, as its newest report states.",
		text("name", ""), isTrue("clients", "It serves clients."), isTrue("complete", "It has all rows that it has shown."),
		text("epoch", ""), amount("term", ""), amount("position", "Of its newest row."),
		amount("behind_rows", "Rows fewer than the node that answers."), span("age_seconds", "Of the report."))
}

func isTrue(name, text string) schema.Field { return schema.Required(name, schema.Boolean(text)) }

func amount(name, text string) schema.Field {
	return schema.Required(name, schema.Integer(text).AtLeast(0))
}

func span(name, text string) schema.Field {
	return schema.Required(name, schema.Number(text).AtLeast(0))
}
