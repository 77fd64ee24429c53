package openapi

import (
	"slices"

	"github.com/ruedahq/rueda/internal/api/asyncapi"
	"github.com/ruedahq/rueda/internal/api/reason"
	"github.com/ruedahq/rueda/internal/api/schema"
	"github.com/ruedahq/rueda/wire"
)

func named(name string, s *schema.Schema) schema.Named { return schema.Named{Name: name, Schema: s} }

// components returns the schemas that operations may refer to: those of REST, and those of the
// stream. A schema of REST replaces one of the stream with the same name.
func components() []schema.Named {
	all := slices.Concat(errorSchemas(), tokenSchemas(), otpSchemas(), oauthSchemas(), userSchemas(), operatorSchemas(), logSchemas(), connectionSchemas(), accountSchemas(), marketSchemas(), calendarSchemas(), consoleSchemas())
	for _, shared := range asyncapi.Components() {
		if !slices.ContainsFunc(all, func(own schema.Named) bool { return own.Name == shared.Name }) {
			all = append(all, shared)
		}
	}
	return all
}

// text returns a required string member.
func text(name, description string) schema.Field {
	return schema.Required(name, schema.String(description))
}

// maybe returns an optional string member.
func maybe(name, description string) schema.Field {
	return schema.Optional(name, schema.String(description))
}

// list returns a required array of strings.
func list(name, description string) schema.Field {
	return schema.Required(name, schema.Array(description, schema.String("")))
}

// seconds returns a required member with a number of seconds.
func seconds(name, description string) schema.Field {
	return schema.Required(name, schema.Integer(description).AtLeast(0))
}

// word returns the required member "reason", whose values are the reason words of REST.
func word() schema.Field {
	words := reason.Words(func(e reason.Entry) bool { return e.Status != 0 })
	return schema.Required("reason", schema.Enum("Stable word for programs. Clients accept words that they do not know. Each has a page at "+wire.ReasonPages+"{word}.", words...))
}

func errorSchemas() []schema.Named {
	return []schema.Named{
		named("Error", schema.Object("An error.",
			schema.Required("success", schema.False("")),
			schema.Required("error", schema.Object("",
				schema.Required("code", schema.Integer("The HTTP status.").Between(400, 599)),
				word(),
				text("msg", "A sentence for people."),
				text("request_id", "The X-Request-Id of the answer, to be given to the operator."),
				maybe("hint", "What to do next, for people."),
				schema.Required("doc", schema.String("Address of the page about the reason, relative to the gateway.").Format("uri-reference")),
				schema.Optional("details", schema.Array("The fields that the error is about.", schema.Object("",
					text("field", "Name of a member of the body, of a parameter or of a header."),
					text("msg", "What is wrong with it.")))),
			)))),
		named(OAuthForm, schema.Object("An error in the form of RFC 6749.",
			schema.Required("error", schema.Enum("Word of RFC 6749 or RFC 8628.",
				"invalid_request", "invalid_grant", "unsupported_grant_type", "slow_down", "temporarily_unavailable", "server_error")),
			text("error_description", "A sentence for people, in ASCII."),
			word(),
			text("request_id", "The X-Request-Id of the answer."),
			maybe("hint", "What to do next, for people."),
			schema.Required("error_uri", schema.String("Address of the page about the reason, relative to the gateway.").Format("uri-reference")),
		)),
		named("Nothing", schema.Object("An object without members.")),
	}
}

// tokens returns the members of an answer that contains tokens, followed by the members in more.
func tokens(more ...schema.Field) []schema.Field {
	return append([]schema.Field{
		text("access_token", "Sent as Authorization: Bearer."),
		schema.Required("token_type", schema.Const("bearer")),
		seconds("expires_in", "Seconds until the access token expires."),
		text("refresh_token", "Renews the tokens."),
		seconds("refresh_expires_in", "Seconds until the refresh token expires."),
		text("scope", "The scopes of the user, with spaces between them."),
	}, more...)
}

func otp() *schema.Schema {
	return schema.String("One-time password: 6 to 8 digits, or a recovery code.").Pattern("^(([ -]{0,3}[0-9]){6,8}|([ -]{0,3}[A-Za-z0-9]){16,24})[ -]{0,3}$").Nullable()
}

// credentials returns the members of a login: username, password, the members in more, and an
// optional one-time password.
func credentials(more ...schema.Field) []schema.Field {
	return slices.Concat([]schema.Field{text("username", ""), schema.Required("password", schema.String("").Format("password"))},
		more, []schema.Field{schema.Optional("otp", otp().Describe("Only for users with a second factor."))})
}

func tokenSchemas() []schema.Named {
	return []schema.Named{
		named("Tokens", schema.Object("Tokens of a login.", tokens()...)),
		named("PasswordGrant", schema.Object("A login with a password.", slices.Concat(
			[]schema.Field{schema.Required("grant_type", schema.Const(wire.GrantPassword))}, credentials())...)),
		named("RefreshGrant", schema.Object("New tokens for a refresh token.",
			schema.Required("grant_type", schema.Const(wire.GrantRefresh)), text("refresh_token", ""))),
		named("TokenRequest", schema.OneOf("", schema.Ref("PasswordGrant"), schema.Ref("RefreshGrant"))),
		named("RevokeRequest", schema.Object("", text("token", "An access token or a refresh token."))),
		named("PasswordRequest", schema.Object("", credentials(schema.Required("new_password", schema.String("").Format("password")))...)),
		named("SessionsRequest", schema.Object("The login sid ends, or all except keep.", credentials(
			schema.Optional("sid", schema.String("The sid of the login that ends. Absent: all.").Nullable()),
			schema.Optional("keep", schema.String("The sid of the login that stays, without sid. Absent: none.").Nullable()))...)),
		named("Session", schema.Object("A login.",
			text("sid", "Its name."),
			schema.Required("created_at", schema.String("").Format("date-time")),
			schema.Required("last_used_at", schema.String("When it last received tokens. That of the current login is rounded down to the hour.").Format("date-time")),
			text("address", "Client address of the last token request; empty: unknown."),
			text("client", "User-Agent of the last token request; empty: unknown."),
			schema.Required("connections", schema.Integer("Open sockets at this gateway.").AtLeast(0)),
			schema.Required("current", schema.Boolean("The login of the request's own token.")))),
		named("Sessions", schema.Object("", schema.Required("sessions", schema.Array("", schema.Ref("Session"))))),
		named("Ended", schema.Object("", schema.Required("ended", schema.Integer("Number of logins.").AtLeast(0)))),
	}
}

func otpSchemas() []schema.Named {
	action := func(word string) schema.Field { return schema.Required("action", schema.Const(word)) }
	codes := list("recovery_codes", "Each is valid once, in place of a one-time password.")
	return []schema.Named{
		named("OTPRequest", schema.OneOf("", schema.Ref("OTPCredentials"), schema.Ref("OTPConfirmation"))),
		named("OTPCredentials", schema.Object("Enrol a second factor, get new recovery codes, or disable the second factor.", slices.Concat(
			[]schema.Field{schema.Required("action", schema.Enum("", wire.OTPEnrol, wire.OTPRecoveryCodes, wire.OTPDisable))}, credentials())...)),
		named("OTPConfirmation", schema.Object("Confirm an enrolment with a one-time password of the new secret.", action(wire.OTPConfirm),
			text("enrolment", "From the answer to enrol."), schema.Required("otp", schema.String("One-time password of the new secret.")))),
		named("Enrolment", schema.Object("A new secret, which must be confirmed.",
			text("enrolment", "To be sent with confirm."), text("secret", "In base32."),
			schema.Required("url", schema.String("otpauth:// URL for a QR code.").Format("uri")), seconds("expires_in", "Seconds in which it can be confirmed."))),
		named("ConfirmedFactor", schema.Object("Tokens of a new login, and recovery codes.", tokens(codes)...)),
		named("RecoveryCodes", schema.Object("New recovery codes.", codes)),
	}
}

func oauthSchemas() []schema.Named {
	uri := func(name, description string) schema.Field {
		return schema.Required(name, schema.String(description).Format("uri"))
	}
	return []schema.Named{
		named("TokenForm", schema.Object("A form. Other parameters are ignored.",
			schema.Required("grant_type", schema.Enum("", wire.GrantPassword, wire.GrantRefresh)),
			maybe("username", "Of password."), maybe("password", "Of password."), maybe("otp", "Of password, for users with a second factor."),
			maybe("refresh_token", "Of refresh_token.")).Open()),
		named("TokenParameter", schema.Object("A form. Other parameters are ignored.", text("token", "An access token or a refresh token.")).Open()),
		named("IntrospectionForm", schema.Object("A form. Other parameters are ignored.", text("token", "An access token or a refresh token."),
			maybe("token_type_hint", "refresh_token for a refresh token.")).Open()),
		named("ActiveToken", schema.Object("A token that is active.",
			schema.Required("active", schema.True("")), text("sub", "Id of the user."), maybe("username", ""), maybe("scope", ""), maybe("client_id", ""),
			schema.Optional("token_type", schema.Const("Bearer").Describe("Of an access token.")),
			schema.Required("token_use", schema.Enum("", "access_token", "refresh_token")),
			maybe("iss", "Of an access token."), maybe("aud", "Of an access token."), maybe("sid", "The login."),
			schema.Optional("iat", schema.Integer("Unix seconds.")), schema.Optional("exp", schema.Integer("Unix seconds.")))),
		named("InactiveToken", schema.Object("Any other token.", schema.Required("active", schema.False("")))),
		named("KeySet", schema.Object("A JSON Web Key Set.", schema.Required("keys", schema.Array("", schema.Object("",
			text("kty", ""), maybe("crv", ""), maybe("e", ""), maybe("n", ""), maybe("x", ""), maybe("y", ""), maybe("alg", ""), maybe("kid", ""), maybe("use", "")))))),
		named("Metadata", schema.Object("Authorization server metadata.",
			uri("issuer", "The public URL of the gateway."), uri("token_endpoint", ""), uri("revocation_endpoint", ""), uri("jwks_uri", ""),
			list("scopes_supported", ""), list("response_types_supported", "None."), list("grant_types_supported", ""),
			list("token_endpoint_auth_methods_supported", ""), list("revocation_endpoint_auth_methods_supported", ""))),
	}
}
