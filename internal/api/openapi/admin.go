package openapi

import (
	"slices"

	"github.com/ruedahq/rueda/internal/api/schema"
	"github.com/ruedahq/rueda/wire"
)

// Admin returns the operations that administrators use, on their own listener.
func Admin() []Operation {
	return slices.Concat([]Operation{
		{
			ID: "introspectToken", Method: "POST", Path: "/oauth/introspect", Tag: tagAdmin, Needs: Operator, Role: "read", Lax: true, Failed: OAuthForm,
			Summary: "Describe a token (RFC 7662)",
			Body:    &Body{Media: Form, Schema: schema.Ref("IntrospectionForm")},
			Answer:  Answer{Description: "The state of the token.", Flat: schema.OneOf("", schema.Ref("ActiveToken"), schema.Ref("InactiveToken"))},
			Reasons: []wire.Reason{wire.Unavailable},
		},
		{
			ID: "listUserSessions", Method: "GET", Path: "/admin/users/{id}/sessions", Tag: tagAdmin, Needs: Operator, Role: "read", Lax: true,
			Summary: "List the logins of a user",
			Segment: schema.String("The id of a user, not the name."),
			Answer:  Answer{Description: "The logins of the user.", Data: schema.Ref("Sessions")},
			Reasons: []wire.Reason{wire.NotFound, wire.Unavailable},
		},
		{
			ID: "endUserSessions", Method: "DELETE", Path: "/admin/users/{id}/sessions", Tag: tagAdmin, Needs: Operator, Role: "operate", Lax: true,
			Summary: "End all logins of a user",
			Segment: schema.String("The id of a user, not the name."),
			Answer:  Answer{Description: "How many logins were ended.", Data: schema.Ref("Ended")},
			Reasons: []wire.Reason{wire.NotFound, wire.Unavailable},
		},
		{
			ID: "endUserSession", Method: "DELETE", Path: "/admin/sessions/{id}", Tag: tagAdmin, Needs: Operator, Role: "operate",
			Summary:     "End one login of any user",
			Description: "Its tokens and sockets end. It has one row in the audit log, with the name of the operator.",
			Segment:     schema.String("The id of a login: sid in the list of a user's logins, login in the list of connections."),
			Answer:      Answer{Description: "How many logins were ended: one.", Data: schema.Ref("Ended")},
			Reasons:     []wire.Reason{wire.NotFound, wire.Unavailable},
		},
		{
			ID: "getMetrics", Method: "GET", Path: "/metrics", Tag: tagHealth, Needs: Operator, Role: "read", Lax: true, Probe: true,
			Summary: "Figures of the gateway for Prometheus",
			Offers:  []string{Text},
			Answer: Answer{Description: "The figures, in the text format of Prometheus.", Bare: true,
				Text: map[string]*schema.Schema{Text: schema.String("Lines of the text format 0.0.4.")}},
			Reasons: []wire.Reason{wire.NotFound},
		},
		{
			ID: "getOperator", Method: "GET", Path: "/admin/operator", Tag: tagAdmin, Needs: Operator, Role: "read",
			Summary: "Get the name and the role of the operator",
			Answer:  Answer{Description: "The operator of the token.", Data: schema.Ref("Operator")},
		},
		{
			ID: "getLogLevel", Method: "GET", Path: "/admin/log-level", Tag: tagAdmin, Needs: Operator, Role: "read",
			Summary: "Get the level of the gateway's log",
			Answer:  Answer{Description: "The level.", Data: schema.Ref("LogLevel")},
			Reasons: []wire.Reason{wire.UnsupportedOption},
		},
		{
			ID: "setLogLevel", Method: "PUT", Path: "/admin/log-level", Tag: tagAdmin, Needs: Operator, Role: "operate",
			Summary:     "Set the level of the gateway's log",
			Description: "The level is that of one gateway, until it stops. A change has one row in the audit log, with the name of the operator.",
			Body:        &Body{Media: JSON, Schema: schema.Ref("LogLevel")},
			Answer:      Answer{Description: "The level afterwards.", Data: schema.Ref("LogLevel")},
			Reasons:     []wire.Reason{wire.UnsupportedOption, wire.Unavailable},
		},
	}, []Operation{reloadOperation()}, connectionOperations(), userOperations(), groupOperations(), hostOperations(), health(), documents("/admin/openapi.json"))
}

// userOperations returns the operations about users of the gateway's own user base.
func userOperations() []Operation {
	userID := func() *schema.Schema { return schema.String("The id of a user, not the name.") }
	return []Operation{
		{
			ID: "listUsers", Method: "GET", Path: "/admin/users", Tag: tagAdmin, Needs: Operator, Role: "identity",
			Summary: "List the users, or find one by name",
			Query: []Parameter{
				{Name: "name", Schema: schema.String("Only the user with exactly this name.")},
				pageLimit(100, 1000), pageCursor(),
			},
			Answer:  Answer{Description: "A page of users, sorted by name.", Data: schema.Ref("UserPage")},
			Reasons: []wire.Reason{wire.UnsupportedOption, wire.Unavailable},
		},
		{
			ID: "getUser", Method: "GET", Path: "/admin/users/{id}", Tag: tagAdmin, Needs: Operator, Role: "identity",
			Summary: "Get a user",
			Segment: userID(),
			Answer:  Answer{Description: "The user.", Data: schema.Ref("User")},
			Reasons: []wire.Reason{wire.NotFound, wire.UnsupportedOption, wire.Unavailable},
		},
		{
			ID: "changeUser", Method: "POST", Path: "/admin/users/{id}", Tag: tagAdmin, Needs: Operator, Role: "identity",
			Summary:     "Change a user",
			Description: "Each action has one row in the audit log, with the name of the operator.",
			Segment:     userID(),
			Body:        &Body{Media: JSON, Schema: schema.Ref("UserChange")},
			Answer:      Answer{Description: "The user afterwards.", Data: schema.Ref("User")},
			Reasons:     []wire.Reason{wire.NotFound, wire.Conflict, wire.UnsupportedOption, wire.Unavailable},
		},
		{
			ID: "addUser", Method: "POST", Path: "/admin/users", Tag: tagAdmin, Needs: Operator, Role: "identity",
			Summary: "Add a user",
			Body:    &Body{Media: JSON, Schema: schema.Ref("NewUser")},
			Answer:  Answer{Description: "The user.", Data: schema.Ref("User")},
			Reasons: []wire.Reason{wire.Conflict, wire.UnsupportedOption, wire.Unavailable},
		},
		{
			ID: "listUserAccounts", Method: "GET", Path: "/admin/users/{id}/accounts", Tag: tagAdmin, Needs: Operator, Role: "identity",
			Summary: "List the accounts of a user",
			Segment: userID(),
			Answer:  Answer{Description: "The accounts, sorted by number.", Data: schema.Ref("UserAccounts")},
			Reasons: []wire.Reason{wire.NotFound, wire.UnsupportedOption, wire.Unavailable},
		},
		{
			ID: "addUserAccount", Method: "POST", Path: "/admin/users/{id}/accounts", Tag: tagAdmin, Needs: Operator, Role: "identity",
			Summary: "Give a user an account",
			Segment: userID(),
			Body:    &Body{Media: JSON, Schema: schema.Ref("NewAccount")},
			Answer:  Answer{Description: "The accounts afterwards.", Data: schema.Ref("UserAccounts")},
			Reasons: []wire.Reason{wire.NotFound, wire.Conflict, wire.UnsupportedOption, wire.Unavailable},
		},
	}
}

// LogLevels returns the levels of the log. A log of one level also contains the lines of all later
// levels.
func LogLevels() []string { return []string{"debug", "info", "warn", "error"} }

func logSchemas() []schema.Named {
	return []schema.Named{
		named("Operator", schema.Object("An operator.", text("name", "Empty: that of a token without a name."),
			schema.Required("role", schema.Enum("Each one includes those before it.", "read", "operate", "identity")))),
		named("LogLevel", schema.Object("", schema.Required("level", schema.Enum("Lines of this level and of those after it are written.", LogLevels()...)))),
	}
}

func userSchemas() []schema.Named {
	networks := func(text string) *schema.Schema {
		return schema.Array(text, schema.String("A network such as 192.0.2.0/24, or an address."))
	}
	action := func(words ...string) schema.Field { return schema.Required("action", schema.Enum("", words...)) }
	end := func(text string) *schema.Schema { return schema.String(text).Format("date-time") }
	return []schema.Named{
		named("User", schema.Object("A user as operators see it.",
			text("id", ""), text("username", ""), schema.Required("status", schema.Enum("", "active", "disabled", "expired")),
			schema.Required("created_at", end("")), schema.Optional("expires_at", end("When the account ends. Absent: never.")),
			schema.Required("second_factor", schema.Boolean("The user has a second factor.")),
			schema.Required("second_factor_required", schema.Boolean("A group of the user requires one.")),
			list("groups", "Names of the user's groups."),
			schema.Optional("second_factor_locked", schema.Boolean("Ten one-time passwords were wrong, and a new password is needed. Absent: false.")),
			schema.Optional("must_change_password", schema.Boolean("Before a login. Absent: false.")),
			schema.Optional("recovery_codes", schema.Integer("How many are left. Absent in lists, and without a second factor.").AtLeast(0)),
			schema.Required("networks", networks("The user's own. Groups may have more.")),
			schema.Required("rights", schema.Ref("Rights")),
			schema.Optional("unreadable", schema.True("The record of the user cannot be read in full, so that the user cannot log in.")))),
		named("UserPage", schema.Object("", schema.Required("users", schema.Array("", schema.Ref("User"))), nextCursor())),
		named("UserChange", schema.OneOf("", schema.Ref("UserSwitch"), schema.Ref("UserExpiry"), schema.Ref("UserNetworks"), schema.Ref("UserGroup"),
			schema.Ref("RightsChange"), schema.Ref("UserPassword"))),
		named("UserSwitch", schema.Object("Disable or enable the user, or remove the second factor.", action("disable", "enable", "reset_second_factor"))),
		named("UserExpiry", schema.Object("Set when the account ends.", action("set_expiry"),
			schema.Required("expires_at", end("null: never.").Nullable()))),
		named("UserNetworks", schema.Object("Set from which networks the user may come.", action("set_networks"),
			schema.Required("networks", networks("Empty: none of the user's own.")))),
		named("UserGroup", schema.Object("Add the user to a group, or remove the user from it.", action("join_group", "leave_group"), text("group", "Name of the group."))),
	}
}
