package wire

import (
	"fmt"
	"io"
	"log/slog"
	"strconv"

	"github.com/ruedahq/rueda/market"
)

// Reasons that only REST uses, in addition to those it shares with the socket.
const (
	MFARequired    Reason = "mfa_required"
	EpochChanged   Reason = "epoch_changed"
	NotImplemented Reason = "not_implemented" // an unsupported transfer coding
)

// Failure is a fault of a REST request with details about its fields.
type Failure struct {
	Fault
	Details []Detail
}

// Detail describes what is wrong with a field of a body or a parameter of a query.
type Detail struct {
	Field string
	Msg   string
}

// NewFailure returns a failure about one field. Its message begins with the name of the field.
func NewFailure(r Reason, field, msg string) *Failure {
	return &Failure{Fault{Reason: r, Msg: field + " " + msg}, []Detail{{field, msg}}}
}

// AppendFailure appends the envelope of an error. code is its HTTP status.
func AppendFailure(b []byte, code int, f *Failure, requestID string) []byte {
	b = append(b, `{"success":false,"error":{"code":`...)
	b = strconv.AppendInt(b, int64(code), 10)
	b = append(b, `,"reason":`...)
	b = AppendString(b, string(f.Reason))
	b = append(b, `,"msg":`...)
	b = AppendString(b, f.Msg)
	b = append(b, `,"request_id":`...)
	b = AppendString(b, requestID)
	b = appendMember(b, "hint", f.Hint)
	b = appendMember(b, "doc", ReasonPages+string(f.Reason))
	if len(f.Details) > 0 {
		b = append(b, `,"details":[`...)
		for i, d := range f.Details {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"field":`...)
			b = AppendString(b, d.Field)
			b = append(b, `,"msg":`...)
			b = AppendString(b, d.Msg)
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	return append(b, "}}\n"...)
}

// AppendEnvelope appends the envelope of a successful answer. data is a JSON object.
func AppendEnvelope(b, data []byte) []byte {
	b = append(b, `{"success":true,"data":`...)
	b = append(b, data...)
	return append(b, "}\n"...)
}

// The two values of grant_type.
const (
	GrantPassword = "password"
	GrantRefresh  = "refresh_token"
)

// TokenRequest is the body of POST /auth/token. When printed or logged it shows only the grant.
type TokenRequest struct {
	Grant        string // GrantPassword or GrantRefresh
	Username     string // of GrantPassword
	Password     string // of GrantPassword
	OTP          string // of GrantPassword: the one-time password of the second factor; "": none
	RefreshToken string // of GrantRefresh
}

// Format implements fmt.Formatter. It writes the grant for any verb.
func (r TokenRequest) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "grant "+r.Grant) }

// LogValue implements slog.LogValuer. It returns the grant.
func (r TokenRequest) LogValue() slog.Value { return slog.StringValue("grant " + r.Grant) }

// ReadTokenRequest parses the body of POST /auth/token and checks the types of its fields. The
// grant determines which fields are used; others are ignored. The failure is BadJSON,
// InvalidRequest, BadField (otp) or UnsupportedGrant.
func ReadTokenRequest(data []byte) (TokenRequest, *Failure) {
	body, f := readBody(data)
	if f != nil {
		return TokenRequest{}, f
	}
	grant, f := required(&body, "grant_type")
	if f != nil {
		return TokenRequest{}, f
	}
	r := TokenRequest{Grant: grant}
	switch grant {
	case GrantPassword:
		if r.Username, f = required(&body, "username"); f != nil {
			return TokenRequest{}, f
		}
		if r.Password, f = required(&body, "password"); f == nil {
			r.OTP, f = otpMember(&body)
		}
	case GrantRefresh:
		r.RefreshToken, f = required(&body, "refresh_token")
	default:
		f = NewFailure(UnsupportedGrant, "grant_type", "must be password or refresh_token")
	}
	if f != nil {
		return TokenRequest{}, f
	}
	return r, nil
}

// otpMember returns the optional member otp.
func otpMember(body *Value) (string, *Failure) {
	v := body.Get("otp")
	if v.Kind == Absent || v.Kind == Null {
		return "", nil
	}
	if v.Kind != String {
		return "", CheckOTP("")
	}
	return v.Text, CheckOTP(v.Text)
}

// maxOTP bounds a one-time password with the spaces and dashes that people type, in bytes.
const maxOTP = 64

// CheckOTP returns a failure unless text is a one-time password of 6 to 8 digits or a recovery code
// of 16 to 24 letters and digits. Spaces and dashes do not count.
func CheckOTP(text string) *Failure {
	digits, letters, others := 0, 0, max(0, len(text)-maxOTP)
	for i := range len(text) {
		switch c := text[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z':
			letters++
		case c != ' ' && c != '-':
			others++
		}
	}
	n := digits + letters
	if others == 0 && (letters == 0 && n >= 6 && n <= 8 || n >= 16 && n <= 24) {
		return nil
	}
	return NewFailure(BadField, "otp", "must be a string of 6 to 8 digits, or a recovery code")
}

// ReadRevokeRequest parses the body of POST /auth/revoke and returns the token. The failure is
// BadJSON or InvalidRequest.
func ReadRevokeRequest(data []byte) (token string, f *Failure) { return ReadMember(data, "token") }

// ReadMember parses a body and returns a required member, which is a string and may be empty. The
// failure is BadJSON or InvalidRequest.
func ReadMember(data []byte, name string) (text string, f *Failure) {
	body, f := readBody(data)
	if f != nil {
		return "", f
	}
	return required(&body, name)
}

func readBody(data []byte) (Value, *Failure) {
	v, err := ParseJSON(data)
	if err != nil {
		return v, &Failure{Fault: Fault{Reason: BadJSON, Msg: err.Error()}}
	}
	if v.Kind != Object {
		return v, &Failure{Fault: Fault{Reason: BadJSON, Msg: "The body must be a JSON object"}}
	}
	return v, nil
}

// required returns a required string member, which may be empty.
func required(body *Value, name string) (string, *Failure) {
	switch v := body.Get(name); v.Kind {
	case String:
		return v.Text, nil
	case Absent, Null:
		return "", NewFailure(InvalidRequest, name, "is missing")
	default:
		return "", NewFailure(InvalidRequest, name, "must be a string")
	}
}

// TokenResponse is the data of a successful POST /auth/token. When printed or logged it shows only
// the scope.
type TokenResponse struct {
	Access           string
	ExpiresIn        int64 // seconds
	Refresh          string
	RefreshExpiresIn int64  // seconds
	Scope            string // all scopes of the user, separated by spaces
}

// Format implements fmt.Formatter. It writes the scope for any verb.
func (t TokenResponse) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "scope "+t.Scope) }

// LogValue implements slog.LogValuer. It returns the scope.
func (t TokenResponse) LogValue() slog.Value { return slog.StringValue("scope " + t.Scope) }

// Append appends t as a JSON object.
func (t *TokenResponse) Append(b []byte) []byte {
	b = append(b, `{"access_token":`...)
	b = AppendString(b, t.Access)
	b = append(b, `,"token_type":"bearer","expires_in":`...)
	b = strconv.AppendInt(b, t.ExpiresIn, 10)
	b = append(b, `,"refresh_token":`...)
	b = AppendString(b, t.Refresh)
	b = append(b, `,"refresh_expires_in":`...)
	b = strconv.AppendInt(b, t.RefreshExpiresIn, 10)
	b = append(b, `,"scope":`...)
	b = AppendString(b, t.Scope)
	return append(b, '}')
}

// AppendMarket appends a market as GET /market/markets lists it.
func AppendMarket(b []byte, m *market.Market) []byte {
	b = append(b, `{"market":`...)
	b = AppendString(b, m.ID)
	b = appendMember(b, "name", m.Name)
	zone := m.Timezone
	if zone == "" {
		zone = "UTC"
	}
	b = appendMember(b, "timezone", zone)
	b = append(b, `,"terms":[`...)
	for i := range m.Terms {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"term":`...)
		b = AppendString(b, m.Terms[i].Name)
		b = append(b, `,"settlement_days":`...)
		b = strconv.AppendInt(b, int64(m.Terms[i].SettlementDays), 10)
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

// AppendInstrument appends an instrument as GET /market/instruments lists it, with its current
// trading status. Unknown members are omitted.
func AppendInstrument(b []byte, in *market.Instrument, status market.Phase) []byte {
	b = append(b, `{"instrument":`...)
	b = AppendString(b, in.ID.String())
	b = appendMember(b, "symbol", in.ID.Symbol)
	b = appendMember(b, "market", in.ID.Market)
	b = appendMember(b, "term", in.ID.Term)
	b = append(b, `,"settlement_days":`...)
	b = strconv.AppendInt(b, int64(in.SettlementDays), 10)
	b = appendMember(b, "name", in.Name)
	b = appendMember(b, "kind", in.Kind)
	b = appendMember(b, "isin", in.ISIN)
	b = appendMember(b, "currency", in.Currency)
	multiplier := in.Multiplier
	if multiplier == 0 {
		multiplier = market.Scale
	}
	b = append(b, `,"multiplier":`...)
	b = multiplier.Append(b)
	b = append(b, `,"price_decimals":`...)
	b = strconv.AppendInt(b, int64(in.PriceDecimals), 10)
	b = append(b, `,"size_decimals":`...)
	b = strconv.AppendInt(b, int64(in.SizeDecimals), 10)
	b = appendTicks(b, in.Ticks)
	if in.Lot > 0 {
		b = append(b, `,"lot":`...)
		b = in.Lot.Append(b)
	}
	if in.MinSize > 0 {
		b = append(b, `,"min_size":`...)
		b = in.MinSize.Append(b)
	}
	b = appendMember(b, "status", status.String())
	b = append(b, `,"channels":`...)
	if in.NoBook {
		b = append(b, `["trades","quotes","status","bars","summary"]`...)
	} else {
		b = append(b, `["trades","quotes","order_book","status","bars","summary"]`...)
	}
	return append(b, '}')
}

func appendTicks(b []byte, ticks []market.Tick) []byte {
	if len(ticks) == 0 {
		return b
	}
	b = append(b, `,"tick":[`...)
	for i, t := range ticks {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		b = t.From.Append(b)
		b = append(b, ',')
		b = t.Step.Append(b)
		b = append(b, ']')
	}
	return append(b, ']')
}

// MarketStatus is a row of GET /market/status.
type MarketStatus struct {
	Market      string
	Phase       market.Phase
	Reason      string // one word; may be empty
	Next        int64  // next expected change of phase, Unix ns; 0: unknown
	Instruments []InstrumentStatus
}

// InstrumentStatus is the status of an instrument that differs from that of its market.
type InstrumentStatus struct {
	ID     market.InstrumentID
	Phase  market.Phase
	Reason string
	Next   int64
}

// Append appends s as a JSON object.
func (s *MarketStatus) Append(b []byte) []byte {
	b = append(b, `{"market":`...)
	b = AppendString(b, s.Market)
	b = appendPhase(b, s.Phase, s.Reason, s.Next)
	b = append(b, `,"instruments":[`...)
	for i := range s.Instruments {
		if i > 0 {
			b = append(b, ',')
		}
		in := &s.Instruments[i]
		b = append(b, `{"instrument":`...)
		b = AppendString(b, in.ID.String())
		b = appendPhase(b, in.Phase, in.Reason, in.Next)
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

func appendPhase(b []byte, phase market.Phase, reason string, next int64) []byte {
	b = appendMember(b, "status", phase.String())
	b = appendMember(b, "reason", reason)
	if next == 0 {
		return b
	}
	b = append(b, `,"next_change":"`...)
	b = AppendTime(b, next)
	return append(b, '"')
}

// appendMember appends a string member with a leading comma, or nothing if value is empty.
func appendMember(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	return AppendString(b, value)
}
