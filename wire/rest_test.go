package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/market"
)

func TestGoldenBodies(t *testing.T) {
	tokens := TokenResponse{Access: "eyJ.x.y", ExpiresIn: 86400, Refresh: "rt1_abc", RefreshExpiresIn: 2592000, Scope: "accounts:read marketdata:read"}
	term := []market.Term{{Name: "CI"}, {Name: "24hs", SettlementDays: 1}}
	id := market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "24hs"}
	full := market.Instrument{ID: id, Name: `Grupo "Galicia"`, Kind: "equity", ISIN: "ARP495251018", Currency: "ARS", SettlementDays: 1,
		Multiplier: size(t, "100"), PriceDecimals: 2, SizeDecimals: 1, Lot: size(t, "0.1"), MinSize: size(t, "10"),
		Ticks: []market.Tick{{From: 0, Step: price(t, "0.01")}, {From: price(t, "10"), Step: price(t, "0.5")}}}
	status := MarketStatus{Market: "BYMA", Phase: market.Open, Next: someTime,
		Instruments: []InstrumentStatus{{ID: id, Phase: market.Halt, Reason: "volatility", Next: someTime}, {ID: id, Phase: market.Suspended}}}
	closed := MarketStatus{Market: "BYMA", Phase: market.Closed, Reason: market.ReasonHoliday}
	at := time.Date(2026, 11, 20, 11, 30, 0, 5, time.FixedZone("", -3*3600))
	wrong := Failure{Fault: Fault{Reason: InvalidCredentials, Msg: "Wrong username or password"}}
	unknown := Failure{Fault{Reason: UnknownInstrument, Msg: "Unknown instrument", Hint: "Did you mean GGAL|BYMA|24hs?"},
		[]Detail{{"instruments", "GGAI|BYMA|24hs is not listed"}, {"instruments", `a"b`}}}
	got := []string{
		string(AppendEnvelope(nil, tokens.Append(nil))),
		string(AppendEnvelope(nil, []byte("{}"))),
		string(AppendFailure(nil, 401, &wrong, "r-1")),
		string(AppendFailure(nil, 422, &unknown, "r-1")),
		string(AppendFailure(nil, 400, NewFailure(InvalidRequest, "grant_type", "is missing"), "r-1")),
		string(AppendMarket(nil, &market.Market{ID: "BYMA", Name: "Bolsas", Timezone: "America/Argentina/Buenos_Aires", Terms: term})),
		string(AppendMarket(nil, &market.Market{ID: "SIM"})),
		string(AppendInstrument(nil, &full, market.Open)),
		string(AppendInstrument(nil, &market.Instrument{ID: id, NoBook: true}, market.NoPhase)),
		string(status.Append(nil)),
		string(closed.Append(nil)),
		string(AppendSessions(nil, []Session{
			{ID: "f1", Created: at, Used: at.Add(90 * time.Minute), Address: "2001:db8::7", Client: `bot "x"`, Connections: 2, Current: true},
			{ID: "f2", Created: at, Used: at},
		})),
		string(AppendSessions(nil, nil)),
		string((&Metadata{URL: "https://api.broker.example", Scopes: []string{"accounts:read"}}).Append(nil)),
		string(AppendGrantError(nil, "invalid_grant", &Fault{Reason: MFARequired, Msg: "A \"second\" factor\nñ"}, "r-1")),
		string((&TokenState{Subject: "u1", Username: "demo", Scope: "a b", ClientID: "rueda", TokenType: "Bearer", TokenUse: "access_token", Issuer: "https://api.broker.example", Audience: "rueda", Session: "f1", Issued: at, Expires: at.Add(time.Hour)}).Append(nil)),
		InactiveToken,
	}
	names, want := golden(t, "testdata/rest.golden")
	if len(want) != len(got) {
		t.Fatalf("%d bodies made, the golden file has %d", len(got), len(want))
	}
	for i := range want {
		if got := strings.TrimSuffix(got[i], "\n"); got != want[i] {
			t.Errorf("%s:\n got %s\nwant %s", names[i], got, want[i])
		}
		if _, err := ParseJSON([]byte(got[i])); err != nil {
			t.Errorf("%s: %v", names[i], err)
		}
	}
}

func TestReadTokenRequest(t *testing.T) {
	for _, tt := range []struct {
		body   string
		want   TokenRequest
		reason Reason
		field  string
	}{
		{body: `{"grant_type":"password","username":"u","password":"p"}`, want: TokenRequest{Grant: "password", Username: "u", Password: "p"}},
		{body: ` { "password" : " p " , "username" : "" , "grant_type" : "password" } `, want: TokenRequest{Grant: "password", Password: " p "}},
		{body: `{"grant_type":"password","username":"u","password":"p","refresh_token":1}`, want: TokenRequest{Grant: "password", Username: "u", Password: "p"}},
		{body: `{"grant_type":"refresh_token","refresh_token":"r","username":"u"}`, want: TokenRequest{Grant: "refresh_token", RefreshToken: "r"}},
		{body: ``, reason: BadJSON},
		{body: `null`, reason: BadJSON},
		{body: `[]`, reason: BadJSON},
		{body: `{}{}`, reason: BadJSON},
		{body: `{"grant_type":"password","Grant_Type":"password"}`, reason: BadJSON},
		{body: `{}`, reason: InvalidRequest, field: "grant_type"},
		{body: `{"grant_type":1}`, reason: InvalidRequest, field: "grant_type"},
		{body: `{"grant_type":""}`, reason: UnsupportedGrant, field: "grant_type"},
		{body: `{"grant_type":"Password"}`, reason: UnsupportedGrant, field: "grant_type"},
		{body: `{"grant_type":"password","password":"p"}`, reason: InvalidRequest, field: "username"},
		{body: `{"grant_type":"password","username":null,"password":"p"}`, reason: InvalidRequest, field: "username"},
		{body: `{"grant_type":"password","username":"u","password":"p","otp":"123456"}`, want: TokenRequest{Grant: "password", Username: "u", Password: "p", OTP: "123456"}},
		{body: `{"grant_type":"password","username":"u","password":"p","otp":null}`, want: TokenRequest{Grant: "password", Username: "u", Password: "p"}},
		{body: `{"grant_type":"password","username":"u","password":"p","otp":"ABCD-EFGH-IJKL-MNOP"}`, want: TokenRequest{Grant: "password", Username: "u", Password: "p", OTP: "ABCD-EFGH-IJKL-MNOP"}},
		{body: `{"grant_type":"password","username":"u","password":"p","otp":123456}`, reason: BadField, field: "otp"},
		{body: `{"grant_type":"password","username":"u","password":"p","otp":""}`, reason: BadField, field: "otp"},
		{body: `{"grant_type":"password","username":"u","password":"p","otp":"12345"}`, reason: BadField, field: "otp"},
		{body: `{"grant_type":"password","username":"u","password":"p","otp":"123456789"}`, reason: BadField, field: "otp"},
		{body: `{"grant_type":"password","username":"u","password":"p","otp":"12345x"}`, reason: BadField, field: "otp"},
		{body: `{"grant_type":"password","username":"u","password":"p","otp":" 123 456 "}`, want: TokenRequest{Grant: "password", Username: "u", Password: "p", OTP: " 123 456 "}},
		{body: `{"grant_type":"password","username":"u","password":"p","otp":"abcd efgh ijkl mnop qrst uvwx"}`, want: TokenRequest{Grant: "password", Username: "u", Password: "p", OTP: "abcd efgh ijkl mnop qrst uvwx"}},
		{body: `{"grant_type":"password","username":"u","password":"p","otp":"abcd efgh ijkl mnop qrst uvwx y"}`, reason: BadField, field: "otp"},
		{body: `{"grant_type":"password","username":"u","password":"p","otp":"ABCD-EFGH-IJKL-MNO"}`, reason: BadField, field: "otp"},
		{body: `{"grant_type":"password","username":"u","password":"p","otp":"` + strings.Repeat(" ", 59) + `123456"}`, reason: BadField, field: "otp"},
		{body: `{"grant_type":"password","username":"u","password":"p","otp":"123\t456"}`, reason: BadField, field: "otp"},
		{body: `{"grant_type":"password","username":"u","password":"p","otp":"ABCD-EFGH-IJKL-MN=P"}`, reason: BadField, field: "otp"},
		{body: `{"grant_type":"refresh_token","refresh_token":"r","otp":1}`, want: TokenRequest{Grant: "refresh_token", RefreshToken: "r"}},
		{body: `{"grant_type":"password","username":"u","password":{}}`, reason: InvalidRequest, field: "password"},
		{body: `{"grant_type":"refresh_token"}`, reason: InvalidRequest, field: "refresh_token"},
	} {
		got, f := ReadTokenRequest([]byte(tt.body))
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

func TestReadRevokeRequest(t *testing.T) {
	for body, want := range map[string]Reason{`{"token":"x"}`: "", `{}`: InvalidRequest, `{"token":[]}`: InvalidRequest, `"x"`: BadJSON} {
		token, f := ReadRevokeRequest([]byte(body))
		if f == nil {
			f = &Failure{}
		}
		if f.Reason != want || (want == "") != (token == "x") {
			t.Errorf("%s: got %q and %q", body, token, f.Reason)
		}
	}
}

// TestBodiesRedactThemselves checks that bodies with secrets do not reveal them, however they are
// printed.
func TestBodiesRedactThemselves(t *testing.T) {
	request := TokenRequest{Grant: "password", Username: "canary", Password: "canary", OTP: "canary", RefreshToken: "canary"}
	answer := TokenResponse{Access: "canary", Refresh: "canary", Scope: "s"}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+" "+verb+" "+verb+" ", request, &request, answer)
	}
	for _, log := range []*slog.Logger{slog.New(slog.NewJSONHandler(&out, nil)), slog.New(slog.NewTextHandler(&out, nil))} {
		log.Info("x", "request", request, "pointer", &request, "answer", answer)
	}
	if strings.Contains(out.String(), "canary") || strings.Contains(out.String(), "63616e617279") {
		t.Errorf("printed: %s", &out)
	}
}

// FuzzReadTokenRequest checks that encoding/json reads an accepted body in the same way.
func FuzzReadTokenRequest(f *testing.F) {
	for _, seed := range []string{
		`{"grant_type":"password","username":"u","password":"\u00e9\ud83d\ude00"}`,
		`{"grant_type":"refresh_token","refresh_token":"rt1_x"}`,
		`{"GRANT_TYPE":"password"}`, `{"a":{"b":[1,2,{"c":null}]}}`, `null`, ``, `{}{}`, "\xef\xbb\xbf{}", `{"password":"\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, failure := ReadTokenRequest(body)
		if failure != nil {
			if r != (TokenRequest{}) {
				t.Errorf("a failure with %#v", r)
			}
			switch failure.Reason {
			case BadJSON, InvalidRequest, UnsupportedGrant:
			default:
				t.Errorf("reason %q", failure.Reason)
			}
			return
		}
		var other map[string]any
		if err := json.Unmarshal(body, &other); err != nil {
			t.Fatalf("accepted, and encoding/json says: %v", err)
		}
		want := TokenRequest{Grant: other["grant_type"].(string)}
		switch want.Grant {
		case GrantPassword:
			want.Username, want.Password = other["username"].(string), other["password"].(string)
		case GrantRefresh:
			want.RefreshToken = other["refresh_token"].(string)
		}
		if r != want {
			t.Errorf("read as another request than by encoding/json")
		}
	})
}
