package openapi

import (
	"slices"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/api/schema"
	"github.com/ruedahq/rueda/wire"
)

// Tags group the operations of a document.
const (
	tagTokens    = "Tokens"
	tagOAuth     = "OAuth"
	tagAccounts  = "Accounts"
	tagMarket    = "Market data"
	tagHistory   = "History"
	tagStream    = "Stream"
	tagHealth    = "Health"
	tagDocuments = "Documents"
	tagConsole   = "Console"
	tagAdmin     = "Administration"
)

// StreamPath is the path of the WebSocket upgrade.
const StreamPath = "/stream"

// Public returns the operations that clients use.
func Public() []Operation {
	return slices.Concat(tokenOperations(), sessionOperations(), oauthOperations(), accountOperations(),
		marketOperations(), historyOperations(), streamOperations(), wellKnown(), health(), consoleOperations(), documents("/openapi.json", "/asyncapi.json"))
}

// loginReasons returns the reasons of errors for requests with a username and a password, followed
// by the reasons in more.
func loginReasons(more ...wire.Reason) []wire.Reason {
	return append([]wire.Reason{
		wire.BadField, wire.InvalidCredentials, wire.MFARequired, wire.EnrolmentRequired,
		wire.PasswordChangeRequired, wire.SecondFactorLocked,
		wire.AddressNotAllowed, wire.RateLimited, wire.TooManyFailures, wire.Unavailable,
	}, more...)
}

func tokenOperations() []Operation {
	return []Operation{
		{
			ID: "getTokens", Method: "POST", Path: "/auth/token", Tag: tagTokens, Lax: true,
			Summary:     "Log in, or renew tokens",
			Description: "Every refresh answers with another successor of the presented token. The presented token stays valid until one of its successors is used.",
			Body:        &Body{Media: JSON, Schema: schema.Ref("TokenRequest"), Example: "getTokens.request"},
			Answer:      Answer{Description: "New tokens.", Data: schema.Ref("Tokens"), Header: rateHeaders()},
			Reasons:     loginReasons(wire.UnsupportedGrant, wire.InvalidRefreshToken),
		},
		{
			ID: "revokeToken", Method: "POST", Path: "/auth/revoke", Tag: tagTokens, Lax: true, Limit: revokesPerMinute, ByToken: true,
			Summary:     "End a login",
			Description: "Ends the login of the token with its sockets. The answer is the same for any token, including an unknown one.",
			Body:        &Body{Media: JSON, Schema: schema.Ref("RevokeRequest"), Example: "revokeToken.request"},
			Answer:      Answer{Description: "The token is not valid now.", Data: schema.Ref("Nothing")},
			Reasons:     []wire.Reason{wire.Unavailable},
		},
		{
			ID: "changePassword", Method: "POST", Path: "/auth/password", Tag: tagTokens, Lax: true, Limit: changesPerMinute,
			Summary:     "Change the own password",
			Description: "All earlier logins of the user end. The answer has the tokens of a new one.",
			Body:        &Body{Media: JSON, Schema: schema.Ref("PasswordRequest")},
			Answer:      Answer{Description: "Tokens of a new login.", Data: schema.Ref("Tokens")},
			Reasons:     loginReasons(wire.WeakPassword, wire.UnsupportedOption),
		},
		{
			ID: "manageSecondFactor", Method: "POST", Path: "/auth/otp", Tag: tagTokens, Lax: true, Limit: changesPerMinute,
			Summary:     "Manage the own second factor",
			Description: "action says what to do: enrol a new secret, confirm it, get new recovery codes, or disable the second factor.",
			Body:        &Body{Media: JSON, Schema: schema.Ref("OTPRequest")},
			Answer: Answer{Description: "Depends on action.", Data: schema.OneOf("", schema.Ref("Enrolment"), schema.Ref("ConfirmedFactor"),
				schema.Ref("RecoveryCodes"), schema.Ref("Nothing"))},
			Reasons: loginReasons(wire.InvalidEnrolment, wire.InvalidOTP, wire.UnsupportedOption),
		},
	}
}

func sessionOperations() []Operation {
	return []Operation{
		{
			ID: "listSessions", Method: "GET", Path: "/auth/sessions", Tag: tagTokens, Needs: AnyUser, Lax: true,
			Summary: "List the own logins",
			Answer:  Answer{Description: "The logins of the user, the most recently used first.", Data: schema.Ref("Sessions")},
			Reasons: []wire.Reason{wire.Unavailable},
		},
		{
			ID: "endSessions", Method: "DELETE", Path: "/auth/sessions", Tag: tagTokens, Needs: AnyUser,
			Summary:     "End the own login, if it is the only one",
			Description: "If the user has other logins, the answer is forbidden: endLogins ends them.",
			Query:       []Parameter{{Name: "keep", Schema: schema.Enum("current keeps the login of the token.", "current")}},
			Answer:      Answer{Description: "How many logins were ended.", Data: schema.Ref("Ended")},
			Reasons:     []wire.Reason{wire.Forbidden, wire.Unavailable},
		},
		{
			ID: "endLogins", Method: "POST", Path: "/auth/sessions", Tag: tagTokens, Lax: true, Limit: changesPerMinute,
			Summary:     "End logins with the password",
			Description: "Ends the login sid, or all except keep. It needs no access token: a stolen one must not end the logins of its owner.",
			Body:        &Body{Media: JSON, Schema: schema.Ref("SessionsRequest")},
			Answer:      Answer{Description: "How many logins were ended.", Data: schema.Ref("Ended")},
			Reasons:     loginReasons(wire.NotFound),
		},
		{
			ID: "endSession", Method: "DELETE", Path: "/auth/sessions/{id}", Tag: tagTokens, Needs: AnyUser, Lax: true,
			Summary:     "End the own login",
			Description: "That of the token. For another one of the user the answer is forbidden: endLogins ends it.",
			Segment:     schema.String("The sid of a login."),
			Answer:      Answer{Description: "The login has ended.", Data: schema.Ref("Nothing")},
			Reasons:     []wire.Reason{wire.NotFound, wire.Forbidden, wire.Unavailable},
		},
	}
}

func oauthOperations() []Operation {
	return []Operation{
		{
			ID: "oauthToken", Method: "POST", Path: "/oauth/token", Tag: tagOAuth, Lax: true, Failed: OAuthForm,
			Summary:     "Log in, or renew tokens (RFC 6749)",
			Description: "The grants of /auth/token for OAuth libraries. There are no registered clients: client_id, client_secret, Basic credentials and scope are ignored.",
			Body:        &Body{Media: Form, Schema: schema.Ref("TokenForm")},
			Answer:      Answer{Description: "New tokens.", Flat: schema.Ref("Tokens"), Header: append(rateHeaders(), "Pragma")},
			Reasons:     loginReasons(wire.UnsupportedGrant, wire.InvalidRefreshToken),
		},
		{
			ID: "oauthRevoke", Method: "POST", Path: "/oauth/revoke", Tag: tagOAuth, Lax: true, Failed: OAuthForm, Limit: revokesPerMinute, ByToken: true,
			Summary: "End a login (RFC 7009)",
			Body:    &Body{Media: Form, Schema: schema.Ref("TokenParameter")},
			Answer:  Answer{Description: "The token is not valid now.", Flat: schema.Ref("Nothing")},
			Reasons: []wire.Reason{wire.Unavailable},
		},
	}
}

func accountOperations() []Operation {
	return []Operation{
		{
			ID: "listAccounts", Method: "GET", Path: "/broker/accounts", Tag: tagAccounts, Needs: broker.ScopeAccounts,
			Summary: "List the own accounts",
			Query: []Parameter{
				{Name: "status", Empty: true, Schema: accountStatus()},
				pageLimit(100, 1000), pageCursor(),
			},
			Answer:  Answer{Description: "A page of accounts.", Data: schema.Ref("AccountPage")},
			Reasons: []wire.Reason{wire.Unavailable},
		},
		{
			ID: "getAccount", Method: "GET", Path: "/broker/accounts/{id}", Tag: tagAccounts, Needs: broker.ScopeAccounts,
			Summary: "Get one of the own accounts",
			Segment: schema.String("The account_id of an account."),
			Answer:  Answer{Description: "The account.", Data: schema.Ref("Account")},
			Reasons: []wire.Reason{wire.NotFound, wire.Unavailable},
		},
	}
}

func wellKnown() []Operation {
	return []Operation{
		{
			ID: "getKeys", Method: "GET", Path: "/.well-known/jwks.json", Tag: tagOAuth, Lax: true, Limit: readsPerMinute,
			Summary: "Public keys of access tokens (RFC 7517)",
			Answer:  Answer{Description: "The keys.", Flat: schema.Ref("KeySet"), Tagged: true},
		},
		{
			ID: "getMetadata", Method: "GET", Path: "/.well-known/oauth-authorization-server", Tag: tagOAuth, Lax: true, Limit: readsPerMinute,
			Summary: "Metadata for OAuth libraries (RFC 8414)",
			Answer:  Answer{Description: "The metadata.", Flat: schema.Ref("Metadata"), Tagged: true},
			Reasons: []wire.Reason{wire.NotFound},
		},
	}
}

func health() []Operation {
	return []Operation{
		{
			ID: "isLive", Method: "GET", Path: "/livez", Tag: tagHealth, Lax: true, Probe: true,
			Summary: "Report whether the process works",
			Answer:  Answer{Description: "It works.", Data: schema.Object("", schema.Required("status", schema.Const("live")))},
		},
		{
			ID: "isReady", Method: "GET", Path: "/readyz", Tag: tagHealth, Lax: true, Probe: true,
			Summary: "Report whether the gateway should receive clients",
			Answer:  Answer{Description: "It should.", Data: schema.Object("", schema.Required("status", schema.Const("ready")))},
			Reasons: []wire.Reason{wire.Unavailable},
		},
	}
}

// documents returns the operations that serve the documents at these paths and the pages about
// reason words.
func documents(paths ...string) []Operation {
	names := map[string][2]string{
		"/openapi.json":       {"getOpenAPI", "This API as OpenAPI 3.1"},
		"/asyncapi.json":      {"getAsyncAPI", "The stream as AsyncAPI 3.0"},
		"/admin/openapi.json": {"getOpenAPI", "This API as OpenAPI 3.1"},
	}
	var list []Operation
	for _, path := range paths {
		list = append(list, Operation{
			ID: names[path][0], Method: "GET", Path: path, Tag: tagDocuments, Lax: true, Limit: readsPerMinute, Compressed: true,
			Summary: names[path][1],
			Answer:  Answer{Description: "The document.", Flat: schema.Object("").Open(), Tagged: true},
		})
	}
	page := map[string]*schema.Schema{HTML: schema.String("A page.")}
	return append(list,
		Operation{
			ID: "listReasons", Method: "GET", Path: "/docs/reasons", Tag: tagDocuments, Lax: true, Limit: readsPerMinute, Compressed: true,
			Summary: "List of the reason words of errors",
			Offers:  []string{HTML},
			Answer:  Answer{Description: "A page with all words.", Bare: true, Text: page, Tagged: true},
		},
		Operation{
			ID: "getReason", Method: "GET", Path: wire.ReasonPages + "{id}", Tag: tagDocuments, Lax: true, Limit: readsPerMinute, Compressed: true,
			Summary: "Cause and remedy of a reason word",
			Segment: schema.String("A reason word."),
			Offers:  []string{HTML},
			Answer:  Answer{Description: "A page about the word.", Bare: true, Text: page, Tagged: true},
			Reasons: []wire.Reason{wire.NotFound},
		})
}

func pageLimit(usual, most int64) Parameter {
	return Parameter{Name: "limit", Schema: schema.Integer("Rows of a page.").Between(1, most).Default(usual)}
}

func pageCursor() Parameter {
	return Parameter{Name: "cursor", Empty: true, Schema: schema.String("The next_cursor of the page before, with the same other parameters.").Length(0, 256)}
}

func accountStatus() *schema.Schema {
	return schema.Enum("State of an account.", "active", "restricted", "closed")
}
