package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// TestReadCredentialChanges checks the bodies of POST /auth/password and POST /auth/otp.
func TestReadCredentialChanges(t *testing.T) {
	user := Credentials{Username: "u", Password: "p"}
	withOTP := Credentials{Username: "u", Password: "p", OTP: "123456"}
	const login = `"username":"u","password":"p"`
	for _, tt := range []struct {
		body   string
		want   any
		reason Reason
		field  string
	}{
		{body: `{` + login + `,"new_password":"n"}`, want: PasswordRequest{user, "n"}},
		{body: `{` + login + `,"otp":"123456","new_password":""}`, want: PasswordRequest{withOTP, ""}},
		{body: `{` + login + `}`, want: PasswordRequest{}, reason: InvalidRequest, field: "new_password"},
		{body: `{` + login + `,"new_password":1}`, want: PasswordRequest{}, reason: InvalidRequest, field: "new_password"},
		{body: `{` + login + `,"otp":"1","new_password":"n"}`, want: PasswordRequest{}, reason: BadField, field: "otp"},
		{body: `{"username":"u","new_password":"n"}`, want: PasswordRequest{}, reason: InvalidRequest, field: "password"},
		{body: `[]`, want: PasswordRequest{}, reason: BadJSON},
		{body: `{"action":"enrol",` + login + `}`, want: OTPRequest{Action: "enrol", Credentials: user}},
		{body: `{"action":"enrol",` + login + `,"enrolment":1}`, want: OTPRequest{Action: "enrol", Credentials: user}},
		{body: `{"action":"disable",` + login + `,"otp":"123456"}`, want: OTPRequest{Action: "disable", Credentials: withOTP}},
		{body: `{"action":"recovery_codes",` + login + `,"otp":null}`, want: OTPRequest{Action: "recovery_codes", Credentials: user}},
		{body: `{"action":"confirm","enrolment":"e","otp":"123456"}`, want: OTPRequest{Action: "confirm", Enrolment: "e", Credentials: Credentials{OTP: "123456"}}},
		{body: `{"action":"confirm","enrolment":"e"}`, want: OTPRequest{}, reason: InvalidRequest, field: "otp"},
		{body: `{"action":"confirm","enrolment":"e","otp":"12"}`, want: OTPRequest{}, reason: BadField, field: "otp"},
		{body: `{"action":"confirm","otp":"123456"}`, want: OTPRequest{}, reason: InvalidRequest, field: "enrolment"},
		{body: `{"action":"confirm",` + login + `}`, want: OTPRequest{}, reason: InvalidRequest, field: "enrolment"},
		{body: `{"action":"enrol","username":"u"}`, want: OTPRequest{}, reason: InvalidRequest, field: "password"},
		{body: `{"action":"Enrol",` + login + `}`, want: OTPRequest{}, reason: BadField, field: "action"},
		{body: `{"action":7,` + login + `}`, want: OTPRequest{}, reason: InvalidRequest, field: "action"},
		{body: `{` + login + `}`, want: OTPRequest{}, reason: InvalidRequest, field: "action"},
		{body: ``, want: OTPRequest{}, reason: BadJSON},
	} {
		var got any
		var f *Failure
		if _, ok := tt.want.(PasswordRequest); ok {
			got, f = ReadPasswordRequest([]byte(tt.body))
		} else {
			got, f = ReadOTPRequest([]byte(tt.body))
		}
		if f == nil {
			f = &Failure{}
		}
		field := ""
		if len(f.Details) > 0 {
			field = f.Details[0].Field
		}
		if got != tt.want || f.Reason != tt.reason || field != tt.field {
			t.Errorf("%s: %q about %q, and as expected: %v", tt.body, f.Reason, field, got == tt.want)
		}
	}
}

// TestCredentialsRedactThemselves checks that bodies with credentials do not reveal them, however
// they are printed.
func TestCredentialsRedactThemselves(t *testing.T) {
	secret := Credentials{"canary", "canary", "canary"}
	values := []any{
		secret, PasswordRequest{secret, "canary"}, OTPRequest{Action: "enrol", Credentials: secret, Enrolment: "canary"},
		Enrolment{Token: "canary", Secret: "canary", URL: "canary"},
	}
	var out bytes.Buffer
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&out, verb+" ", v)
		}
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v)
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
	}
	if strings.Contains(out.String(), "canary") || strings.Contains(out.String(), "63616e617279") {
		t.Errorf("printed: %s", &out)
	}
}

// TestCredentialAnswers checks that the answers are the JSON that docs/protocol.md describes.
func TestCredentialAnswers(t *testing.T) {
	e := Enrolment{Token: "e", Secret: "S", URL: `otpauth://"`, ExpiresIn: 600}
	tokens := TokenResponse{Access: "a", ExpiresIn: 1, Refresh: "r", RefreshExpiresIn: 2, Scope: "s"}
	for want, got := range map[string][]byte{
		`{"enrolment":"e","secret":"S","url":"otpauth://\"","expires_in":600}`: e.Append(nil),
		`{"recovery_codes":["A","B"]}`:                                         AppendRecoveryCodes(nil, []string{"A", "B"}),
		`{"access_token":"a","token_type":"bearer","expires_in":1,"refresh_token":"r","refresh_expires_in":2,"scope":"s","recovery_codes":["A"]}`: AppendConfirmed(nil, &tokens, []string{"A"}),
		`{"access_token":"a","token_type":"bearer","expires_in":1,"refresh_token":"r","refresh_expires_in":2,"scope":"s","recovery_codes":[]}`:    AppendConfirmed(nil, &tokens, nil),
	} {
		if string(got) != want || !json.Valid(got) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// FuzzReadOTPRequest checks that encoding/json reads an accepted body in the same way.
func FuzzReadOTPRequest(f *testing.F) {
	for _, seed := range []string{
		`{"action":"enrol","username":"u","password":"\u00e9"}`, `{"action":"confirm","enrolment":"e","otp":"123456"}`,
		`{"action":"disable","username":"u","password":"p","otp":"ABCD-EFGH-IJKL-MNOP"}`, `{"ACTION":"enrol"}`, `null`, `{}{}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, failure := ReadOTPRequest(body)
		if failure != nil {
			if r != (OTPRequest{}) {
				t.Error("a failure with a request")
			}
			return
		}
		var other struct{ Action, Username, Password, OTP, Enrolment any }
		if err := json.Unmarshal(body, &other); err != nil {
			t.Fatalf("accepted, and encoding/json says: %v", err)
		}
		if other.Action != r.Action || r.OTP != "" && other.OTP != r.OTP || r.Enrolment != "" && other.Enrolment != r.Enrolment ||
			r.Username != "" && other.Username != r.Username || r.Password != "" && other.Password != r.Password {
			t.Errorf("%s was read differently", body)
		}
	})
}

func TestReadLogin(t *testing.T) {
	for body, want := range map[string]Reason{
		`{"username":"ana","password":"p"}`:                  "",
		`{"username":"ana","password":"p","otp":"123456"}`:   "",
		`{"username":"ana","password":"p","otp":null,"x":1}`: "",
		`{"username":"ana","password":"p","otp":"12345"}`:    BadField,
		`{"username":"ana"}`:                                 InvalidRequest,
		`{"username":1,"password":"p"}`:                      InvalidRequest,
		`{"username":"ana","username":"b","password":"p"}`:   BadJSON,
		`"ana"`: BadJSON,
	} {
		c, f := ReadLogin([]byte(body))
		got := Reason("")
		if f != nil {
			got = f.Reason
		}
		if got != want || (got == "") != (c.Username == "ana" && c.Password == "p") {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
	if text, f := ReadMember([]byte(`{"session":"s"}`), "session"); text != "s" || f != nil {
		t.Errorf("%q, %v", text, f)
	}
}

// TestReadSessionsRequest checks the body of POST /auth/sessions.
func TestReadSessionsRequest(t *testing.T) {
	user := Credentials{Username: "u", Password: "p"}
	for body, want := range map[string]SessionsRequest{
		`{"username":"u","password":"p"}`:                          {Credentials: user},
		`{"username":"u","password":"p","sid":null,"keep":"b"}`:    {Credentials: user, Keep: "b"},
		`{"username":"u","password":"p","sid":"a","otp":"123456"}`: {Credentials: Credentials{"u", "p", "123456"}, Session: "a"},
	} {
		if got, f := ReadSessionsRequest([]byte(body)); f != nil || got != want {
			t.Errorf("%s: %+v, %v", body, got.Session, f)
		}
	}
	for body, reason := range map[string]Reason{
		`{"username":"u"}`: InvalidRequest, `[]`: BadJSON, `{"username":"u","password":"p","sid":""}`: BadField,
		`{"username":"u","password":"p","sdi":"a"}`: BadField,
		`{"username":"u","password":"p","keep":1}`:  BadField, `{"username":"u","password":"p","sid":"a","keep":"b"}`: BadField,
	} {
		if got, f := ReadSessionsRequest([]byte(body)); f == nil || f.Reason != reason || got != (SessionsRequest{}) {
			t.Errorf("%s: %v, want %s", body, f, reason)
		}
	}
}
