package openapi

import (
	"github.com/ruedahq/rueda/internal/api/schema"
	"github.com/ruedahq/rueda/wire"
)

// ConnectionOrders returns the orders in which connections can be listed. The first one is the
// default.
func ConnectionOrders() []string { return []string{"backlog", "age", "user", "bytes"} }

// reloadOperation returns the operation that reads the configuration again.
func reloadOperation() Operation {
	return Operation{
		ID: "reload", Method: "POST", Path: "/admin/reload", Tag: tagAdmin, Needs: Operator, Role: "operate",
		Summary:     "Read the configuration again",
		Description: "With a mistake in the configuration nothing changes, and the error says where it is. A change has one row in the audit log, with the name of the operator.",
		Answer:      Answer{Description: "The settings that have changed in the configuration.", Data: schema.Ref("Reloaded")},
		Reasons:     []wire.Reason{wire.UnsupportedOption, wire.Unavailable},
	}
}

// connectionOperations returns the operations that list and close connections of the stream.
func connectionOperations() []Operation {
	closed := Answer{Description: "How many connections were closed.", Data: schema.Ref("ClosedConnections")}
	const howClosed = "The client gets Error 503 overloaded and the close code 4503, and reconnects. A close has one row in the audit log, with the name of the operator."
	return []Operation{
		{
			ID: "listConnections", Method: "GET", Path: "/admin/connections", Tag: tagAdmin, Needs: Operator, Role: "read",
			Summary:     "List open connections of the stream",
			Description: "The connections of one gateway, and only the first ones of the order. Each shard has 50 ms to look through its connections.",
			Query: []Parameter{
				{Name: "user", Schema: schema.String("Only the connections of the user with this id or name.")},
				{Name: "sort", Schema: schema.Enum("backlog: the largest first. age: the oldest first. user: by name. bytes: the most output first.", ConnectionOrders()...).Default("backlog")},
				pageLimit(100, 1000),
			},
			Answer:  Answer{Description: "The first connections of the order.", Data: schema.Ref("Connections")},
			Reasons: []wire.Reason{wire.UnsupportedOption},
		},
		{
			ID: "closeUserConnections", Method: "DELETE", Path: "/admin/connections", Tag: tagAdmin, Needs: Operator, Role: "operate",
			Summary: "Close the connections of a user", Description: howClosed,
			Query:   []Parameter{{Name: "user", Required: true, Schema: schema.String("The id or name of the user.")}},
			Answer:  closed,
			Reasons: []wire.Reason{wire.UnsupportedOption, wire.Unavailable},
		},
		{
			ID: "closeConnection", Method: "DELETE", Path: "/admin/connections/{id}", Tag: tagAdmin, Needs: Operator, Role: "operate",
			Summary: "Close a connection", Description: howClosed,
			Segment: schema.String("The id of a connection."),
			Answer:  closed,
			Reasons: []wire.Reason{wire.NotFound, wire.UnsupportedOption, wire.Unavailable},
		},
	}
}

func connectionSchemas() []schema.Named {
	count := func(name, description string) schema.Field {
		return schema.Required(name, schema.Integer(description).AtLeast(0))
	}
	return []schema.Named{
		named("Connection", schema.Object("An open connection of the stream.",
			text("id", "Until the gateway stops. It is not used again."),
			maybe("user", "Id of the user. Absent before authentication."),
			maybe("username", ""),
			maybe("login", "Id of the login, as in the list of a user's logins."),
			maybe("session", "The name that the client gave to its session."),
			maybe("address", "Of the client."),
			schema.Required("transport", schema.Enum("http: GET /market/stream.", "ws", "wss", "http")),
			schema.Required("state", schema.Enum("", "awaiting_token", "checking_token", "live", "draining")),
			schema.Required("since", schema.String("").Format("date-time")),
			count("subscriptions", "Identifiers that the client has subscribed to."),
			count("backlog_bytes", "Bytes that wait for the client, without those of a replay."),
			count("sent_bytes", "Bytes that the kernel has accepted."),
			schema.Required("slow", schema.Boolean("The client reads too slowly.")))),
		named("Connections", schema.Object("",
			schema.Required("connections", schema.Array("", schema.Ref("Connection"))),
			count("open", "Connections of the stream that were looked at."),
			count("matching", "Those of them that the query asks for. The list may have fewer."),
			schema.Required("stale_shards", schema.Array("Numbers of the shards that have not looked at all their connections in time: some of them are missing.", schema.Integer("").AtLeast(0))))),
		named("Reloaded", schema.Object("", list("applied", "Settings that apply now."), list("restart", "Settings that apply after a restart."))),
		named("ClosedConnections", schema.Object("", count("closed", ""))),
	}
}
