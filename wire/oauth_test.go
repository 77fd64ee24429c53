package wire

import (
	"net/url"
	"strings"
	"testing"
)

func TestReadTokenForm(t *testing.T) {
	for _, tt := range []struct {
		body   string
		want   TokenRequest
		reason Reason
		field  string
	}{
		{body: "grant_type=password&username=u&password=p", want: TokenRequest{Grant: "password", Username: "u", Password: "p"}},
		{body: "grant_type=password&username=u&password=p&otp=123456&x=y", want: TokenRequest{Grant: "password", Username: "u", Password: "p", OTP: "123456"}},
		{body: "username=a%20b&password=%C3%A9+%2B&grant_type=password&refresh_token=r", want: TokenRequest{Grant: "password", Username: "a b", Password: "é +"}},
		{body: "grant_type=refresh_token&refresh_token=r&username=u", want: TokenRequest{Grant: "refresh_token", RefreshToken: "r"}},
		{body: "grant_type=password&username=u&password=p&otp=12345x", reason: BadField, field: "otp"},
		{body: "", reason: InvalidRequest, field: "grant_type"},
		{body: "GRANT_TYPE=password", reason: InvalidRequest, field: "grant_type"},
		{body: "grant_type=", reason: InvalidRequest, field: "grant_type"},
		{body: "grant_type=Password", reason: UnsupportedGrant, field: "grant_type"},
		{body: "grant_type=client_credentials", reason: UnsupportedGrant, field: "grant_type"},
		{body: "grant_type=password&password=p", reason: InvalidRequest, field: "username"},
		{body: "grant_type=password&username=u&password", reason: InvalidRequest, field: "password"},
		{body: "grant_type=refresh_token", reason: InvalidRequest, field: "refresh_token"},
		{body: "grant_type=password&username=u&username=u&password=p", reason: InvalidRequest},
		{body: "grant_type=password&username=u&password=p&x=1&x=2", reason: InvalidRequest},
		{body: "grant_type=password&username=u&password=%FF", reason: InvalidRequest},
		{body: "grant_type=password&username=u&password=p&%ff=1", reason: InvalidRequest},
		{body: "grant_type=password&username=u&password=%", reason: InvalidRequest},
		{body: "grant_type=password;username=u", reason: InvalidRequest},
		{body: `{"grant_type":"password"}`, reason: InvalidRequest, field: "grant_type"},
	} {
		got, f := ReadTokenForm([]byte(tt.body))
		if f == nil {
			f = &Failure{}
		}
		field := ""
		if len(f.Details) > 0 {
			field = f.Details[0].Field
		}
		if got != tt.want || f.Reason != tt.reason || field != tt.field {
			t.Errorf("%s: got %#v and %q about %q", tt.body, got, f.Reason, field)
		}
	}
}

func TestGrantErrors(t *testing.T) {
	for _, tt := range []struct {
		reason Reason
		status int
		word   string
		code   int
	}{
		{InvalidCredentials, 401, "invalid_grant", 400},
		{InvalidRefreshToken, 401, "invalid_grant", 400},
		{MFARequired, 403, "invalid_grant", 400},
		{UnsupportedGrant, 400, "unsupported_grant_type", 400},
		{InvalidRequest, 400, "invalid_request", 400},
		{BodyTooBig, 413, "invalid_request", 413},
		{InvalidToken, 401, "invalid_request", 401},
		{RateLimited, 429, "slow_down", 429},
		{TooManyFailures, 429, "slow_down", 429},
		{Unavailable, 503, "temporarily_unavailable", 503},
		{Internal, 500, "server_error", 500},
	} {
		if word, code := tt.reason.GrantError(tt.status); word != tt.word || code != tt.code {
			t.Errorf("%s: %s %d", tt.reason, word, code)
		}
	}
}

// FuzzReadTokenForm checks that an accepted form has no repeated parameters and that no failure
// quotes the form.
func FuzzReadTokenForm(f *testing.F) {
	for _, seed := range []string{"grant_type=password&username=u&password=p", "a=%zz", "a;b", "x&x", "grant_type=refresh_token&refresh_token=%F0%9F%98%80"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		r, failure := ReadTokenForm([]byte(body))
		if failure != nil {
			if failure.Msg == "" || strings.ContainsFunc(failure.Msg, func(r rune) bool { return r > '~' }) {
				t.Fatalf("failure %q", failure.Msg)
			}
			return
		}
		form, err := url.ParseQuery(body)
		if err != nil || len(form["grant_type"]) != 1 || form["grant_type"][0] != r.Grant {
			t.Fatalf("%q was taken for %q: %v", body, r.Grant, err)
		}
	})
}
