package wire

import (
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// ReadTokenForm parses the form of POST /oauth/token (RFC 6749, sections 4.3.2 and 6). A parameter
// without a value counts as absent, and unknown parameters are ignored. A repeated parameter is a
// failure (section 3.2). The failure is InvalidRequest, BadField (otp) or UnsupportedGrant.
func ReadTokenForm(data []byte) (TokenRequest, *Failure) {
	form, f := readForm(data)
	if f != nil {
		return TokenRequest{}, f
	}
	r := TokenRequest{Grant: form.Get("grant_type")}
	need := func(name string) (value string) {
		if value = form.Get(name); value == "" && f == nil {
			f = NewFailure(InvalidRequest, name, "is missing")
		}
		return value
	}
	switch r.Grant {
	case GrantPassword:
		r.Username, r.Password = need("username"), need("password")
		if r.OTP = form.Get("otp"); f == nil && r.OTP != "" {
			f = CheckOTP(r.OTP)
		}
	case GrantRefresh:
		r.RefreshToken = need("refresh_token")
	case "":
		need("grant_type")
	default:
		f = NewFailure(UnsupportedGrant, "grant_type", "must be password or refresh_token")
	}
	if f != nil {
		return TokenRequest{}, f
	}
	return r, nil
}

// ReadTokenParameter parses the form of POST /oauth/revoke (RFC 7009) and returns the token, of
// either kind. The failure is InvalidRequest.
func ReadTokenParameter(data []byte) (token string, f *Failure) {
	form, f := readForm(data)
	if f != nil {
		return "", f
	}
	if token = form.Get("token"); token == "" {
		return "", NewFailure(InvalidRequest, "token", "is missing")
	}
	return token, nil
}

// ReadIntrospection parses the form of introspection (RFC 7662) and returns the token and the value
// of token_type_hint. The failure is InvalidRequest.
func ReadIntrospection(data []byte) (i Introspection, f *Failure) {
	if i.Token, f = ReadTokenParameter(data); f != nil {
		return i, f
	}
	form, f := readForm(data)
	i.Hint = form.Get("token_type_hint")
	return i, f
}

// Introspection is a request of introspection.
type Introspection struct{ Token, Hint string }

func readForm(data []byte) (url.Values, *Failure) {
	bad := func(msg string) *Failure { return &Failure{Fault: Fault{Reason: InvalidRequest, Msg: msg}} }
	form, err := url.ParseQuery(string(data))
	if err != nil {
		return nil, bad("The body is not a form") // the error would quote the body
	}
	for name, values := range form {
		if !utf8.ValidString(name) || !utf8.ValidString(values[0]) {
			return nil, bad("The form is not UTF-8")
		}
		if len(values) > 1 { // do not quote the name: it may be a password
			return nil, bad("A parameter is given more than once")
		}
	}
	return form, nil
}

// GrantError returns the error word of RFC 6749 (sections 5.2 and 4.1.2.1) or RFC 8628 for a
// reason, and its HTTP status.
func (r Reason) GrantError(status int) (word string, code int) {
	switch r {
	case InvalidCredentials, InvalidRefreshToken, MFARequired, EnrolmentRequired, PasswordChangeRequired, SecondFactorLocked, AddressNotAllowed:
		return "invalid_grant", 400
	case UnsupportedGrant:
		return "unsupported_grant_type", 400
	case RateLimited, TooManyFailures:
		return "slow_down", 429
	case Unavailable, Overloaded, ShuttingDown:
		return "temporarily_unavailable", 503
	}
	if status >= 500 {
		return "server_error", status
	}
	return "invalid_request", status
}

// AppendGrantError appends the error body of the OAuth endpoints. In addition to the members of RFC
// 6749 it has our reason, which distinguishes a wrong password from a missing second factor, and
// the id of the request.
func AppendGrantError(b []byte, word string, f *Fault, requestID string) []byte {
	b = append(b, `{"error":`...)
	b = AppendString(b, word)
	b = append(b, `,"error_description":`...)
	b = AppendString(b, descriptive(f.Msg))
	b = append(b, `,"reason":`...)
	b = AppendString(b, string(f.Reason))
	b = append(b, `,"request_id":`...)
	b = AppendString(b, requestID)
	b = appendMember(b, "hint", f.Hint)
	b = appendMember(b, "error_uri", ReasonPages+string(f.Reason))
	return append(b, "}\n"...)
}

// descriptive replaces the characters of s that error_description may not contain (RFC 6749,
// section 5.2).
func descriptive(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return '.'
		}
		return r
	}, s)
}

// Metadata is the body of /.well-known/oauth-authorization-server (RFC 8414).
type Metadata struct {
	// of the gateway, without a trailing slash: the issuer and the base of the endpoints
	URL    string
	Scopes []string // all supported scopes
}

// Append appends m as a JSON object.
func (m *Metadata) Append(b []byte) []byte {
	b = append(b, `{"issuer":`...)
	b = AppendString(b, m.URL)
	for _, e := range [...]struct{ name, path string }{
		{`,"token_endpoint":`, "/oauth/token"},
		{`,"revocation_endpoint":`, "/oauth/revoke"},
		{`,"jwks_uri":`, "/.well-known/jwks.json"},
	} {
		b = append(b, e.name...)
		b = AppendString(b, m.URL+e.path)
	}
	b = append(b, `,"scopes_supported":`...)
	b = AppendStrings(b, m.Scopes)
	b = append(b, `,"response_types_supported":[],"grant_types_supported":["password","refresh_token"]`...)
	b = append(b, `,"token_endpoint_auth_methods_supported":["none"],"revocation_endpoint_auth_methods_supported":["none"]}`...)
	return append(b, '\n')
}

// TokenState is the answer of introspection for an active token. For any other token it is
// InactiveToken.
type TokenState struct {
	Subject   string // the user's id
	Username  string
	Scope     string
	ClientID  string
	TokenType string // Bearer; "": of a refresh token
	TokenUse  string // access_token or refresh_token
	Issuer    string // of an access token
	Audience  string // of an access token
	Session   string // sid
	Issued    time.Time
	Expires   time.Time
}

// InactiveToken is the answer of introspection for a token that is not active (RFC 7662, section
// 2.2).
const InactiveToken = `{"active":false}` + "\n"

// Append appends s as a JSON object.
func (s *TokenState) Append(b []byte) []byte {
	b = append(b, `{"active":true`...)
	b = appendMember(b, "sub", s.Subject)
	b = appendMember(b, "username", s.Username)
	b = appendMember(b, "scope", s.Scope)
	b = appendMember(b, "client_id", s.ClientID)
	b = appendMember(b, "token_type", s.TokenType)
	b = appendMember(b, "token_use", s.TokenUse)
	b = appendMember(b, "iss", s.Issuer)
	b = appendMember(b, "aud", s.Audience)
	b = appendMember(b, "sid", s.Session)
	for _, m := range [...]struct {
		name string
		at   time.Time
	}{{`,"iat":`, s.Issued}, {`,"exp":`, s.Expires}} {
		if !m.at.IsZero() {
			b = append(b, m.name...)
			b = strconv.AppendInt(b, m.at.Unix(), 10)
		}
	}
	return append(b, "}\n"...)
}

// Session is a login as GET /auth/sessions lists it.
type Session struct {
	ID          string // sid
	Created     time.Time
	Used        time.Time // when it last received tokens
	Address     string    // client address; "": unknown
	Client      string    // client program; "": unknown
	Connections int       // open sockets
	Current     bool      // the login of the request itself
}

// AppendSessions appends the data of GET /auth/sessions.
func AppendSessions(b []byte, list []Session) []byte {
	b = append(b, `{"sessions":[`...)
	for i := range list {
		s := &list[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"sid":`...)
		b = AppendString(b, s.ID)
		b = append(b, `,"created_at":"`...)
		b = s.Created.UTC().AppendFormat(b, time.RFC3339)
		b = append(b, `","last_used_at":"`...)
		b = s.Used.UTC().AppendFormat(b, time.RFC3339)
		b = append(b, `","address":`...)
		b = AppendString(b, s.Address)
		b = append(b, `,"client":`...)
		b = AppendString(b, s.Client)
		b = append(b, `,"connections":`...)
		b = strconv.AppendInt(b, int64(s.Connections), 10)
		b = append(b, `,"current":`...)
		b = strconv.AppendBool(b, s.Current)
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

// AppendEnded appends the data of an answer that reports how many sessions were ended.
func AppendEnded(b []byte, sessions int) []byte {
	b = append(b, `{"ended":`...)
	b = strconv.AppendInt(b, int64(sessions), 10)
	return append(b, '}')
}
