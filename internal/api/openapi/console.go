package openapi

import (
	"github.com/ruedahq/rueda/internal/api/schema"
	"github.com/ruedahq/rueda/wire"
)

// Pages returns the paths of the web pages for users. A path that ends in a slash also covers all
// paths below it, except for "/". A route takes priority over a page with the same path.
func Pages() []string {
	return []string{"/", "/console", "/console/", "/client", "/client/", "/docs", "/docs/", "/.well-known/security.txt"}
}

// AdminPages returns the paths of the web pages for operators, with the same meaning as those of
// Pages.
func AdminPages() []string { return []string{"/", "/operations", "/operations/"} }

// consoleOperations returns the operations of the console, the web page for users.
func consoleOperations() []Operation {
	own := func() []Parameter {
		return []Parameter{
			{Name: "X-Rueda-Console", Required: true, Schema: schema.Const("1").Describe("A page of another origin cannot send it.")},
		}
	}
	const cookie = "The refresh token is in an HttpOnly cookie, which ends with the browser."
	granted := func(description string) Answer {
		return Answer{Description: description, Data: schema.Ref("ConsoleSession"), Header: append(rateHeaders(), "Set-Cookie")}
	}
	return []Operation{
		{
			ID: "getConsoleConfig", Method: "GET", Path: "/console/config", Tag: tagConsole, Lax: true, Limit: readsPerMinute,
			Summary: "What the console shows before a login",
			Answer:  Answer{Description: "About the gateway.", Data: schema.Ref("ConsoleConfig")},
			Reasons: []wire.Reason{wire.NotFound},
		},
		{
			ID: "beginConsoleSession", Method: "POST", Path: "/console/session", Tag: tagConsole, Lax: true,
			Summary:     "Log in from the console",
			Description: "Only a page of the gateway's own origin may send this. " + cookie + " Programs use POST /auth/token.",
			Header:      own(),
			Body:        &Body{Media: JSON, Schema: schema.Ref("ConsoleLogin")},
			Answer:      granted("A login. The answer has no refresh token."),
			Reasons:     loginReasons(wire.NotFound),
		},
		{
			ID: "refreshConsoleSession", Method: "POST", Path: "/console/session/refresh", Tag: tagConsole, Lax: true,
			Summary:     "Get a new access token for the console",
			Description: "Only a page of the gateway's own origin may send this. " + cookie + " The cookie must belong to the login that the body names. It is replaced, and stays valid until its successor is used.",
			Header:      own(),
			Body:        &Body{Media: JSON, Schema: schema.Ref("ConsoleRefresh")},
			Answer:      granted("A new access token."),
			Reasons:     []wire.Reason{wire.NotFound, wire.InvalidRefreshToken, wire.AddressNotAllowed, wire.RateLimited, wire.Unavailable},
		},
		{
			ID: "endConsoleSession", Method: "DELETE", Path: "/console/session", Tag: tagConsole, Lax: true, Limit: revokesPerMinute, ByToken: true,
			Summary:     "Log out from the console",
			Description: "Only a page of the gateway's own origin may send this. It ends the login that the body names, by the cookie or by its access token in Authorization, and removes the cookie. If it has ended no login, the answer is 409.",
			Header:      own(),
			Body:        &Body{Media: JSON, Schema: schema.Ref("ConsoleRefresh")},
			Answer:      Answer{Description: "The login has ended.", Data: schema.Ref("Nothing"), Header: []string{"Set-Cookie"}},
			Reasons:     []wire.Reason{wire.NotFound, wire.Conflict, wire.Unavailable},
		},
	}
}

func consoleSchemas() []schema.Named {
	return []schema.Named{
		named("ConsoleConfig", schema.Object("What the console shows before a login.",
			schema.Required("dev", schema.Boolean("Faults may be requested.")),
			schema.Optional("hint", schema.Object("A login to try. Only where nobody else can reach the gateway.", text("username", ""), text("password", ""))))),
		named("ConsoleLogin", schema.Object("A login with a password.", credentials()...)),
		named("ConsoleRefresh", schema.Object("", text("session", "The id of the login, which its first answer had."))),
		named("ConsoleSession", schema.Object("A login of the console.",
			text("access_token", "Sent as Authorization: Bearer."),
			schema.Required("token_type", schema.Const("bearer")),
			seconds("expires_in", "Seconds until the access token expires."),
			seconds("refresh_expires_in", "Seconds until the token in the cookie expires."),
			seconds("idle_timeout", "Seconds without input after which the page ends the login."),
			text("scope", "The scopes of the user, with spaces between them."),
			text("session", "The id of the login, for refreshes. GET /auth/sessions has it as sid."))),
	}
}
