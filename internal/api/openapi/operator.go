package openapi

import (
	"github.com/ruedahq/rueda/internal/api/schema"
	"github.com/ruedahq/rueda/wire"
)

// groupOperations returns the operations about groups of the gateway's own user base.
func groupOperations() []Operation {
	name := func() *schema.Schema { return schema.String("The name of a group.") }
	return []Operation{
		{
			ID: "listGroups", Method: "GET", Path: "/admin/groups", Tag: tagAdmin, Needs: Operator, Role: "identity",
			Summary: "List the groups and their rights",
			Answer:  Answer{Description: "The groups, sorted by name.", Data: schema.Ref("Groups")},
			Reasons: []wire.Reason{wire.UnsupportedOption, wire.Unavailable},
		},
		{
			ID: "addGroup", Method: "POST", Path: "/admin/groups", Tag: tagAdmin, Needs: Operator, Role: "identity",
			Summary: "Add a group",
			Body:    &Body{Media: JSON, Schema: schema.Ref("NewGroup")},
			Answer:  Answer{Description: "The group.", Data: schema.Ref("Group")},
			Reasons: []wire.Reason{wire.NotFound, wire.Conflict, wire.UnsupportedOption, wire.Unavailable},
		},
		{
			ID: "changeGroup", Method: "POST", Path: "/admin/groups/{id}", Tag: tagAdmin, Needs: Operator, Role: "identity",
			Summary:     "Change a group",
			Description: "A change applies to open sockets of the members without closing them.",
			Segment:     name(),
			Body:        &Body{Media: JSON, Schema: schema.Ref("GroupChange")},
			Answer:      Answer{Description: "The group afterwards.", Data: schema.Ref("Group")},
			Reasons:     []wire.Reason{wire.NotFound, wire.Conflict, wire.UnsupportedOption, wire.Unavailable},
		},
		{
			ID: "removeGroup", Method: "DELETE", Path: "/admin/groups/{id}", Tag: tagAdmin, Needs: Operator, Role: "identity",
			Summary: "Remove a group, and the rights of its members that come from it",
			Segment: name(),
			Answer:  Answer{Description: "How many members it had.", Data: schema.Ref("RemovedGroup")},
			Reasons: []wire.Reason{wire.NotFound, wire.UnsupportedOption, wire.Unavailable},
		},
	}
}

// hostOperations returns the operations about the gateway itself: its settings, feeds, keys and
// logs.
func hostOperations() []Operation {
	return []Operation{
		{
			ID: "listFeeds", Method: "GET", Path: "/admin/feeds", Tag: tagAdmin, Needs: Operator, Role: "read",
			Summary: "List the feeds of the gateway and their state",
			Answer:  Answer{Description: "The feeds in the order of the configuration.", Data: schema.Ref("Feeds")},
		},
		{
			ID: "getCluster", Method: "GET", Path: "/admin/cluster", Tag: tagAdmin, Needs: Operator, Role: "read",
			Summary: "Get the state of a node of a cluster, and what it knows of the others",
			Answer:  Answer{Description: "The node that answers.", Data: schema.Ref("Cluster")},
			Reasons: []wire.Reason{wire.UnsupportedOption},
		},
		{
			ID: "listKeys", Method: "GET", Path: "/admin/keys", Tag: tagAdmin, Needs: Operator, Role: "read",
			Summary: "List the keys that sign access tokens",
			Answer:  Answer{Description: "The keys, the newest first, and then the recently revoked ones.", Data: schema.Ref("SigningKeys")},
			Reasons: []wire.Reason{wire.UnsupportedOption},
		},
		{
			ID: "rotateKeys", Method: "POST", Path: "/admin/keys", Tag: tagAdmin, Needs: Operator, Role: "operate",
			Summary:     "Make the next key sign, and revoke a key",
			Description: "Without members the next key is published, and signs in ten minutes. Each step of a key has a row in the audit log, with the name of the operator.",
			Body:        &Body{Media: JSON, Schema: schema.Ref("KeyRotation")},
			Answer:      Answer{Description: "The keys afterwards, and what was changed.", Data: schema.Ref("SigningKeys")},
			Reasons:     []wire.Reason{wire.NotFound, wire.Conflict, wire.UnsupportedOption, wire.Unavailable},
		},
		{
			ID: "readAuditLog", Method: "GET", Path: "/admin/audit", Tag: tagAdmin, Needs: Operator, Role: "operate",
			Summary: "Read rows of the audit log",
			Query: []Parameter{
				{Name: "user", Schema: schema.String("Only rows about the user with this id.")},
				{Name: "kind", Schema: schema.String("Only rows of this kind, such as login_refused.")},
				{Name: "after", Schema: schema.String("Only rows after this one, a whole number of 0 or more. Absent: the newest rows.").Pattern("^[0-9]+$")},
				pageLimit(100, 1000),
			},
			Answer:  Answer{Description: "Rows in the order of the log.", Data: schema.Ref("AuditRows")},
			Reasons: []wire.Reason{wire.UnsupportedOption, wire.Unavailable},
		},
		{
			ID: "getUsage", Method: "GET", Path: "/admin/usage", Tag: tagAdmin, Needs: Operator, Role: "operate",
			Summary:     "Get who used which market data in a month",
			Description: "The gateway stores its counts every 10 s. Months and days are in UTC.",
			Query:       []Parameter{{Name: "month", Schema: schema.String("Such as 2026-11. Absent: the current one.").Pattern("^[0-9]{4}-[0-9]{2}$")}},
			Answer:      Answer{Description: "The usage of the month.", Data: schema.Ref("Usage")},
			Reasons:     []wire.Reason{wire.UnsupportedOption, wire.Unavailable},
		},
	}
}

// operatorSchemas returns the schemas for groupOperations and hostOperations, and the schemas of
// rights.
func operatorSchemas() []schema.Named {
	count := func(name, text string) schema.Field {
		return schema.Required(name, schema.Integer(text).AtLeast(0))
	}
	limit := func(name string) schema.Field {
		return schema.Optional(name, schema.Integer("0 or absent: that of the configuration.").AtLeast(0))
	}
	when := func(name, text string) schema.Field {
		return schema.Required(name, schema.String(text).Format("date-time"))
	}
	sometimes := func(name, text string) schema.Field {
		return schema.Optional(name, schema.String(text).Format("date-time"))
	}
	action := func(word string) schema.Field { return schema.Required("action", schema.Const(word)) }
	expected := schema.Optional("expected", schema.Ref("Rights"))
	mustChange := schema.Optional("must_change_password", schema.Boolean("The user must change it before logging in. Absent: false."))
	return []schema.Named{
		named("Entitlement", schema.Object("A right to market data.",
			text("market", "A market, or * for all."),
			schema.Optional("trades", schema.Boolean("")), schema.Optional("quotes", schema.Boolean("")),
			schema.Optional("depth", schema.Integer("Deepest order book: 0 none, -1 all levels.").AtLeast(-1)),
			schema.Optional("delay", schema.Integer("Of the data in seconds. 0 or absent: none.").AtLeast(0)),
			schema.Optional("instruments", schema.Integer("At a time on a connection. 0 or absent: no limit.").AtLeast(0)),
			sometimes("from", "Beginning of the right."), sometimes("until", "End of the right, exclusive."))),
		named("Rights", schema.Object("The rights that a user or a group has of its own.",
			list("scopes", ""), schema.Required("entitlements", schema.Array("", schema.Ref("Entitlement"))),
			schema.Required("limits", schema.Object("", limit("connections"), limit("subscriptions"), limit("messages_per_second"), limit("requests_per_minute"))),
			schema.Required("networks", schema.Array("From which clients may come. Empty: any.", schema.String("A network such as 192.0.2.0/24, or an address."))))),
		named("RightsChange", schema.Object("Replace the own rights. If they are not as expected any more, the answer is conflict.",
			action("set_rights"), schema.Required("rights", schema.Ref("Rights")), expected)),
		named("UserPassword", schema.Object("Set the password, and end earlier logins.",
			action("set_password"), schema.Required("password", schema.String("").Format("password")), mustChange)),
		named("NewUser", schema.Object("A user to add.", text("username", "Unique without regard to case."),
			schema.Required("password", schema.String("").Format("password")), mustChange,
			schema.Optional("rights", schema.Ref("Rights")), schema.Optional("groups", schema.Array("Names of groups to join.", schema.String(""))))),
		named("UserAccounts", schema.Object("", schema.Required("accounts", schema.Array("", schema.Ref("Account"))))),
		named("NewAccount", schema.Object("An account to add.", text("number", "The broker's own, unique."),
			schema.Optional("type", schema.Enum("Absent: cash.", "cash", "margin")), maybe("currency", "Three capital letters. Absent: ARS."),
			maybe("name", "Of the holder. Absent: the user's."), schema.Optional("is_default", schema.Boolean("The first account is always the default.")))),
		named("Group", schema.Object("A group of users.", text("name", ""), count("members", ""),
			schema.Required("second_factor_required", schema.Boolean("Of the members.")), schema.Required("rights", schema.Ref("Rights")))),
		named("Groups", schema.Object("", schema.Required("groups", schema.Array("", schema.Ref("Group"))))),
		named("NewGroup", schema.Object("A group to add.", text("name", "One word of up to 64 characters."),
			schema.Optional("rights", schema.Ref("Rights")), schema.Optional("second_factor_required", schema.Boolean("")))),
		named("GroupChange", schema.OneOf("", schema.Ref("RightsChange"), schema.Ref("GroupFactor"))),
		named("GroupFactor", schema.Object("Set whether the members must have a second factor. Logins of members without one end.",
			action("set_second_factor"), schema.Required("required", schema.Boolean("")))),
		named("RemovedGroup", schema.Object("", count("members", "That the group had."))),
		named("Feed", schema.Object("A feed.", text("name", ""), schema.Required("up", schema.Boolean("As in rueda_feed_up.")),
			count("events", "Published since the start."), count("refused", "Calls with invalid events."), count("failures", "Runs that have failed."),
			schema.Required("suspect", schema.MapOf("How often the feed looked wrong, by kind.", schema.Integer("").AtLeast(0))),
			sometimes("newest_at", "When it has published the newest events. Absent: none yet."))),
		named("Feeds", schema.Object("", schema.Required("feeds", schema.Array("", schema.Ref("Feed"))))),
		named("Cluster", clusterSchema()), named("ClusterNode", clusterNodeSchema()),
		named("SigningKey", schema.Object("A key that signs access tokens, or did.", text("kid", ""), maybe("alg", "Absent for a revoked key."),
			schema.Required("state", schema.Enum("", "published", "signing", "verify_only", "revoked")),
			sometimes("created", ""), when("since", "In this state."), sometimes("until", "When the clock ends this state."))),
		named("SigningKeys", schema.Object("", schema.Required("keys", schema.Array("", schema.Ref("SigningKey"))),
			schema.Optional("changes", schema.Array("", schema.Object("A step of a key.", text("kid", ""), maybe("alg", ""),
				text("state", "The new one: published, signing, verify_only, revoked or deleted."), sometimes("signs_at", "Of a published key.")))))),
		named("KeyRotation", schema.Object("", schema.Optional("now", schema.Boolean("The next key signs at once.")),
			maybe("revoke", "Id of a key whose tokens become invalid at once. The signing key only with now."),
			schema.Optional("alg", schema.Enum("Of the next key. Absent: that of the configuration.", "ES256", "EdDSA", "RS256")))),
		named("AuditRows", schema.Object("", schema.Required("rows", schema.Array("", schema.Object("A row of the audit log.",
			schema.Required("seq", schema.Integer("Its number.").AtLeast(1)), when("time", ""), text("kind", ""), text("actor", "Who did it."),
			maybe("user", "Id of the user."), maybe("family", "The login."), maybe("address", "Of the client."), maybe("client", "Its User-Agent."),
			maybe("detail", ""), text("hash", "Of this row and all rows before it, in hexadecimal.")))),
			schema.Required("last", schema.Integer("Number of the newest row that was looked at, for after of the next request.").AtLeast(0)))),
		named("Usage", schema.Object("", text("month", ""), schema.Required("rows", schema.Array("", schema.Object("The use of a level of a market by a user.",
			text("user_id", ""), maybe("username", "Absent: the user is not in this database."), text("market", "* for subscriptions to every market."),
			text("level", "trades, quotes or order_book."), count("delay_seconds", ""),
			schema.Required("days", schema.Array("Days of the month with use.", schema.Integer("").Between(1, 31))),
			count("connections", "Largest number at a time. 0: requests only."), when("first", ""), when("last", "")))))),
	}
}
