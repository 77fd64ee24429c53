package wire

import (
	"fmt"
	"io"
	"log/slog"
	"strconv"
)

// Reasons of the routes with which users change their own password and second factor.
const (
	EnrolmentRequired Reason = "mfa_enrolment_required"
	WeakPassword      Reason = "weak_password"
	InvalidEnrolment  Reason = "invalid_enrolment"
	InvalidOTP        Reason = "invalid_otp"

	PasswordChangeRequired Reason = "password_change_required"
	SecondFactorLocked     Reason = "second_factor_locked"
)

// Credentials identify a user who changes them. They have the fields of a login. When printed or
// logged they show nothing.
type Credentials struct {
	Username string
	Password string
	OTP      string // "": none
}

// Format implements fmt.Formatter. It writes no secret.
func (c Credentials) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "credentials") }

// LogValue implements slog.LogValuer. It returns no secret.
func (c Credentials) LogValue() slog.Value { return slog.StringValue("credentials") }

// ReadLogin parses the body of POST /console/session and checks the types of its fields. The
// failure is BadJSON, InvalidRequest or BadField (otp).
func ReadLogin(data []byte) (c Credentials, f *Failure) {
	body, f := readBody(data)
	if f != nil {
		return c, f
	}
	if c, f = credentials(&body); f != nil {
		return Credentials{}, f
	}
	return c, nil
}

// PasswordRequest is the body of POST /auth/password. When printed or logged it shows nothing.
type PasswordRequest struct {
	Credentials
	NewPassword string
}

// ReadPasswordRequest parses the body of POST /auth/password and checks the types of its fields.
// The failure is BadJSON, InvalidRequest or BadField (otp).
func ReadPasswordRequest(data []byte) (r PasswordRequest, f *Failure) {
	body, f := readBody(data)
	if f != nil {
		return r, f
	}
	if r.Credentials, f = credentials(&body); f == nil {
		r.NewPassword, f = required(&body, "new_password")
	}
	if f != nil {
		return PasswordRequest{}, f
	}
	return r, nil
}

// SessionsRequest is the body of POST /auth/sessions. When printed or logged it shows nothing.
type SessionsRequest struct {
	Credentials
	Session string // the login that ends; "": all
	Keep    string // the login that stays if all end; "": none
}

// ReadSessionsRequest parses the body of POST /auth/sessions and checks the types of its fields.
// The failure is BadJSON, InvalidRequest or BadField (otp, sid, keep, or an unknown one).
func ReadSessionsRequest(data []byte) (r SessionsRequest, f *Failure) {
	body, f := readBody(data)
	if f != nil {
		return r, f
	}
	if r.Credentials, f = credentials(&body); f != nil {
		return SessionsRequest{}, f
	}
	for _, m := range body.Fields { // a misspelled sid must not end all logins
		var to *string
		switch m.Name {
		case "username", "password", "otp":
			continue
		case "sid":
			to = &r.Session
		case "keep":
			to = &r.Keep
		default:
			return SessionsRequest{}, &Failure{Fault: Fault{
				Reason: BadField, Msg: "The body has an unknown member", Hint: "username, password, otp, sid and keep are known",
			}}
		}
		switch {
		case m.Value.Kind == Null:
		case m.Value.Kind != String || m.Value.Text == "":
			return SessionsRequest{}, NewFailure(BadField, m.Name, "must be the sid of a login, or left out")
		default:
			*to = m.Value.Text
		}
	}
	if r.Session != "" && r.Keep != "" {
		return SessionsRequest{}, NewFailure(BadField, "keep", "goes without sid")
	}
	return r, nil
}

// Actions of POST /auth/otp.
const (
	OTPEnrol         = "enrol"
	OTPConfirm       = "confirm"
	OTPRecoveryCodes = "recovery_codes"
	OTPDisable       = "disable"
)

// OTPRequest is the body of POST /auth/otp. When printed or logged it shows nothing.
type OTPRequest struct {
	Action string
	Credentials
	Enrolment string // of OTPConfirm, whose OTP is in Credentials
}

// ReadOTPRequest parses the body of POST /auth/otp and checks the types of its fields. The action
// determines which fields are used; others are ignored. The failure is BadJSON, InvalidRequest or
// BadField (action, otp).
func ReadOTPRequest(data []byte) (r OTPRequest, f *Failure) {
	body, f := readBody(data)
	if f != nil {
		return r, f
	}
	if r.Action, f = required(&body, "action"); f != nil {
		return OTPRequest{}, f
	}
	switch r.Action {
	case OTPEnrol, OTPRecoveryCodes, OTPDisable:
		r.Credentials, f = credentials(&body)
	case OTPConfirm:
		if r.Enrolment, f = required(&body, "enrolment"); f != nil {
			break
		}
		if r.OTP, f = required(&body, "otp"); f == nil {
			f = CheckOTP(r.OTP)
		}
	default:
		f = NewFailure(BadField, "action", "must be enrol, confirm, recovery_codes or disable")
	}
	if f != nil {
		return OTPRequest{}, f
	}
	return r, nil
}

// credentials reads the members of a login.
func credentials(body *Value) (c Credentials, f *Failure) {
	if c.Username, f = required(body, "username"); f != nil {
		return c, f
	}
	if c.Password, f = required(body, "password"); f == nil {
		c.OTP, f = otpMember(body)
	}
	return c, f
}

// Enrolment is the data of the answer to the action enrol. When printed or logged it shows nothing.
type Enrolment struct {
	Token     string
	Secret    string // base32
	URL       string // otpauth://
	ExpiresIn int64  // seconds
}

// Format implements fmt.Formatter. It writes no secret.
func (e Enrolment) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "enrolment") }

// LogValue implements slog.LogValuer. It returns no secret.
func (e Enrolment) LogValue() slog.Value { return slog.StringValue("enrolment") }

// Append appends e as a JSON object.
func (e *Enrolment) Append(b []byte) []byte {
	b = append(b, `{"enrolment":`...)
	b = AppendString(b, e.Token)
	b = append(b, `,"secret":`...)
	b = AppendString(b, e.Secret)
	b = append(b, `,"url":`...)
	b = AppendString(b, e.URL)
	b = append(b, `,"expires_in":`...)
	b = strconv.AppendInt(b, e.ExpiresIn, 10)
	return append(b, '}')
}

// AppendRecoveryCodes appends an object with recovery codes.
func AppendRecoveryCodes(b []byte, codes []string) []byte {
	b = append(b, '{')
	b = appendCodes(b, codes)
	return append(b, '}')
}

// AppendConfirmed appends the answer to the action confirm: tokens and recovery codes.
func AppendConfirmed(b []byte, t *TokenResponse, codes []string) []byte {
	b = t.Append(b)
	b = append(b[:len(b)-1], ',')
	b = appendCodes(b, codes)
	return append(b, '}')
}

func appendCodes(b []byte, codes []string) []byte {
	b = append(b, `"recovery_codes":[`...)
	for i, code := range codes {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendString(b, code)
	}
	return append(b, ']')
}
