package auditexport

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/ruedahq/rueda/internal/base/audit"
)

// message is a parsed message of RFC 5424.
type message struct {
	priority                          int
	at, host, app, process, id, named string
	params                            map[string]string
	text                              string
}

// headerForm is the header of RFC 5424, section 6, with one element of structured data.
var headerForm = regexp.MustCompile(`^<([0-9]{1,3})>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,6}Z) ([!-~]{1,255}) ([!-~]{1,48}) ([!-~]{1,128}) ([!-~]{1,32}) \[([!-~]{1,32})`)

// parse parses a message strictly.
func parse(t interface{ Fatalf(string, ...any) }, text string) (m message) {
	found := headerForm.FindStringSubmatch(text)
	if found == nil || !utf8.ValidString(text) {
		t.Fatalf("not of RFC 5424: %q", text)
	}
	_, _ = fmt.Sscan(found[1], &m.priority)
	m.at, m.host, m.app, m.process, m.id, m.named = found[2], found[3], found[4], found[5], found[6], found[7]
	m.params = map[string]string{}
	rest := text[len(found[0]):]
	for strings.HasPrefix(rest, " ") {
		name, after, ok := strings.Cut(rest[1:], `="`)
		if !ok {
			t.Fatalf("a parameter without a value: %q", rest)
		}
		var value strings.Builder
		i := 0
		for ; i < len(after) && after[i] != '"'; i++ {
			if after[i] == ']' {
				t.Fatalf("] in a value without a backslash: %q", text)
			}
			if after[i] == '\\' {
				i++
			}
			value.WriteByte(after[i])
		}
		m.params[name], rest = value.String(), after[i+1:]
	}
	m.text, _ = strings.CutPrefix(rest, "] ")
	if m.text == rest {
		t.Fatalf("no message after the structured data: %q", rest)
	}
	return m
}

func testEncoder(t testing.TB, cfg Syslog) encoder {
	t.Helper()
	e, err := newEncoder(cfg, "gw-1.broker.example", 4711)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func testRow(seq int64, e audit.Event) audit.Row {
	e.Time = time.Date(2026, 11, 23, 5, 55, 58, 3000, time.FixedZone("", -3*3600))
	return audit.Row{Seq: seq, Hash: audit.Hash{0xab}, Event: e}
}

// TestMessages compares whole messages of both formats.
func TestMessages(t *testing.T) {
	hash := "ab" + strings.Repeat("0", 62)
	refused := testRow(7, audit.Event{Kind: audit.LoginRefused, Actor: "client", Address: "192.0.2.7", Client: `a "quoted" \ [x]`, Detail: "wrong password"})
	cut := testRow(8, audit.Event{Kind: audit.ChainBroken, Actor: "gateway", Detail: "fila 3 cambió"})
	head := `2026-11-23T08:55:58.000003Z gw-1.broker.example rueda 4711 `
	for _, tc := range []struct {
		cfg  Syslog
		row  audit.Row
		want string
	}{
		{Syslog{}, refused, `<84>1 ` + head + `login_refused [rueda@32473 seq="7" hash="` + hash +
			`" actor="client" address="192.0.2.7" client="a \"quoted\" \\ [x\]" detail="wrong password"] login_refused by client: wrong password`},
		{Syslog{Facility: "local0", SDID: "audit@12345"}, cut, `<129>1 ` + head + `chain_broken [audit@12345 seq="8" hash="` + hash +
			`" actor="gateway" detail="fila 3 cambió"] ` + "\xEF\xBB\xBF" + `chain_broken by gateway: fila 3 cambió`},
		{Syslog{Format: "json"}, cut, `<81>1 ` + head + `chain_broken [rueda@32473 seq="8" hash="` + hash +
			`"] {"seq":8,"time":"2026-11-23T08:55:58.000003Z","kind":"chain_broken","actor":"gateway","detail":"fila 3 cambi\u00f3","hash":"` + hash + `"}`},
	} {
		e := testEncoder(t, tc.cfg)
		if got := string(e.appendMessage(nil, &tc.row)); got != tc.want {
			t.Errorf("got\n%s\nwant\n%s", got, tc.want)
		}
		if got, want := string(e.appendFrame(nil, &tc.row)), fmt.Sprintf("%d %s", len(tc.want), tc.want); got != want {
			t.Errorf("frame %q", got)
		}
	}
}

// TestSeverities states the severity of each kind, so that a new kind gets one.
func TestSeverities(t *testing.T) {
	want := map[audit.Kind]int{
		audit.ChainBroken: 1, audit.Reuse: 2,
		audit.LoginRefused: 4, audit.LoginThrottled: 4, audit.RefreshRefused: 4, audit.AdminRefused: 4, audit.AccessDenied: 4, audit.AddressRefused: 4, audit.PasswordExposed: 4, audit.FeedRefused: 4,
		audit.LoginNewDevice: 5, audit.UserEnded: 5, audit.UserAdded: 5, audit.UserChanged: 5, audit.GrantChanged: 5, audit.KeyChanged: 5, audit.SettingChanged: 5, audit.ConnectionClosed: 5, audit.Certificate: 5,
		audit.Started: 5, audit.Restored: 5, audit.Pruned: 5,
		audit.Login: 6, audit.Refresh: 6, audit.Logout: 6, audit.SessionEnded: 6, audit.AdminRead: 6,
	}
	for _, k := range audit.Kinds() {
		if want[k] == 0 || severity(k) != want[k] {
			t.Errorf("%s: severity %d, want %d", k, severity(k), want[k])
		}
	}
}

// TestNoMessageInjection checks that texts of clients stay in their parameter, whatever they
// contain, and that a message is one line of bounded length.
func TestNoMessageInjection(t *testing.T) {
	texts := rapid.OneOf(rapid.String(), rapid.StringMatching(`["\\\]\[ =<>\n\r]{0,20}`),
		rapid.Just("\n<34>1 - - - - - - forged"), rapid.Just(`"] forged`), rapid.Just("\xff\xfe\u2028x"), rapid.Just(strings.Repeat("ñ", 4000)))
	structured, asJSON := testEncoder(t, Syslog{}), testEncoder(t, Syslog{Format: "json"})
	rapid.Check(t, func(t *rapid.T) {
		row := testRow(3, audit.Event{
			Kind: audit.LoginRefused, Actor: texts.Draw(t, "actor"), User: texts.Draw(t, "user"), Family: texts.Draw(t, "family"),
			Address: texts.Draw(t, "address"), Client: texts.Draw(t, "client"), Detail: texts.Draw(t, "detail"),
		})
		text := string(structured.appendMessage(nil, &row))
		m := parse(t, text)
		if m.named != DefaultSDID || m.id != "login_refused" || m.params["seq"] != "3" || len(text) > 8<<10 || strings.ContainsAny(text, "\n\r\x00") {
			t.Fatalf("%+v in %d bytes", m, len(text))
		}
		for name, want := range map[string]string{"actor": row.Actor, "user": row.User, "family": row.Family, "address": row.Address, "client": row.Client, "detail": row.Detail} {
			if m.params[name] != plain(want) {
				t.Fatalf("%s is %q, want %q", name, m.params[name], plain(want))
			}
		}
		text = string(asJSON.appendMessage(nil, &row))
		m = parse(t, text)
		var line struct {
			Seq    int64
			Client string
		}
		if err := json.Unmarshal([]byte(m.text), &line); err != nil || line.Seq != 3 || line.Client != plain(row.Client) || len(m.params) != 2 || !isASCII(m.text) {
			t.Fatalf("%v: %s", err, m.text)
		}
	})
}

// TestEncoderSettings checks that wrong settings are refused, and that a host name cannot break the
// header.
func TestEncoderSettings(t *testing.T) {
	for _, bad := range []Syslog{{Format: "xml"}, {Facility: "mail"}, {SDID: "rueda"}, {SDID: "a b@1"}, {SDID: `x"@1`}, {SDID: strings.Repeat("a", 40) + "@1"}} {
		if _, err := newEncoder(bad, "h", 1); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	for host, want := range map[string]string{"": "-", "a b\nc": "abc", strings.Repeat("x", 300): strings.Repeat("x", 255)} {
		e, err := newEncoder(Syslog{}, host, 1)
		row := testRow(1, audit.Event{Kind: audit.Login})
		if m := parse(t, string(e.appendMessage(nil, &row))); err != nil || m.host != want {
			t.Errorf("%q: host %q, %v", host, m.host, err)
		}
	}
}
