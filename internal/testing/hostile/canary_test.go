//go:build unix

package hostile

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// canaries are secrets that the test can recognize in any output.
type canaries struct {
	names   map[string]string // by secret
	answers []reply           // answers that must not contain secrets
}

func (c *canaries) add(what, secret string) string {
	c.names[secret] = what
	return secret
}

// find returns the name of a secret that a text contains, also in hex or base64; "" if there is
// none.
func (c *canaries) find(text []byte) string {
	for secret, what := range c.names {
		for _, form := range []string{
			secret, hex.EncodeToString([]byte(secret)),
			base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
		} {
			if bytes.Contains(text, []byte(form)) {
				return what
			}
		}
	}
	return ""
}

// TestThreat16SecretsInLogsE2E sends secrets to every endpoint, in valid and invalid places,
// accepted and refused. Then it searches for them in everything that the gateway wrote: its debug
// log, its database with the audit log, every file of its folder, and every answer that must not
// contain one.
func TestThreat16SecretsInLogsE2E(t *testing.T) {
	s := start(t, settings{Debug: true})
	a := &attacker{T: t, server: s, network: 9, next: new(atomic.Int32)}
	c := &canaries{names: map[string]string{}}
	c.add("the right password", passwordOf("ana"))
	wrong := c.add("a wrong password", "canary-wrong-password-5f1c")
	typed := c.add("a password typed as the username", "canary-typed-as-name-77aa")
	garbage := c.add("an invalid token", "canary-bearer-token-19d3")

	good := a.login("ana")
	for what, token := range map[string]string{"access token": good.access, "refresh token": good.refresh} {
		c.add(what, token)
	}
	c.add("the signature of an access token", good.access[strings.LastIndexByte(good.access, '.')+1:])
	keep := func(r *reply) *reply {
		c.answers = append(c.answers, *r)
		return r
	}
	for _, body := range []string{
		`{"grant_type":"password","username":"ana","password":"` + wrong + `"}`,
		`{"grant_type":"password","username":"` + typed + `","password":"` + wrong + `"}`,
		`{"grant_type":"password","username":"ana","password":"` + wrong + `","otp":"not an otp ` + wrong + `"}`,
		`{"grant_type":"` + wrong + `","username":"ana","password":"` + wrong + `"}`,
		`{"grant_type":"password","username":"ana","password":"` + wrong + `"`,
		`{"grant_type":"password","username":"` + typed + `\u0000","password":"` + wrong + `"}`,
		`{"grant_type":"refresh_token","refresh_token":"` + garbage + `"}`,
		`{"grant_type":"refresh_token","refresh_token":"` + good.access + `"}`,
		`{"` + wrong + `":1,"` + wrong + `":2}`,
		wrong,
	} {
		keep(a.post(body))
		keep(a.post(body, "Content-Type", "text/plain"))
		keep(a.request("POST", "/auth/revoke", body, "Content-Type", asJSON))
		keep(a.request("POST", "/auth/revoke", `{"token":"`+garbage+`"}`, "Content-Type", asJSON))
	}
	form := "application/x-www-form-urlencoded"
	for _, body := range []string{
		"grant_type=password&username=" + typed + "&password=" + wrong,
		"grant_type=refresh_token&refresh_token=" + garbage,
		"grant_type=" + wrong + "&password=" + wrong, wrong + "=1&" + wrong + "=2", "%zz" + wrong,
	} {
		keep(a.request("POST", "/oauth/token", body, "Content-Type", form, "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("client:"+wrong))))
	}
	a.everywhere(c, keep, good, garbage)
	a.overSockets(c, good, garbage)

	second := a.login("user1") // a login that is refreshed, revoked and presented again
	child := tokensOf(a.refresh(second.refresh))
	for what, token := range map[string]string{"parent": second.refresh, "child": child.refresh, "its access token": child.access} {
		c.add("refresh: "+what, token)
	}
	keep(a.request("POST", "/auth/revoke", `{"token":"`+child.refresh+`"}`, "Content-Type", asJSON))
	keep(a.refresh(child.refresh))
	keep(a.get(child.access))

	for i := range c.answers {
		if what := c.find(c.answers[i].body); what != "" {
			t.Errorf("%s is in an answer with status %d: %.300s", what, c.answers[i].status, c.answers[i].body)
		}
		for name, values := range c.answers[i].header {
			if what := c.find([]byte(strings.Join(values, " "))); what != "" {
				t.Errorf("%s is in the header %s", what, name)
			}
		}
	}
	s.stop(t) // writes everything
	for line := range strings.Lines(s.log.String()) {
		if what := c.find([]byte(line)); what != "" {
			t.Errorf("%s is in the log: %.300s", what, line)
		}
	}
	if !strings.Contains(s.log.String(), "level=DEBUG") {
		t.Error("the log is not at debug level: the test proves nothing")
	}
	looked := 0
	err := filepath.WalkDir(s.Folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(name)
		if what := c.find(text); what != "" {
			t.Errorf("%s is in the file %s", what, d.Name())
		}
		looked++
		return err
	})
	if err != nil || looked < 3 {
		t.Errorf("%d files were searched: %v", looked, err)
	}
}

// everywhere sends secrets to every route, in every part of a request.
func (a *attacker) everywhere(c *canaries, keep func(*reply) *reply, good tokens, garbage string) {
	for _, path := range []string{
		"/auth/token", "/auth/revoke", "/auth/sessions", "/auth/sessions/", "/oauth/token", "/broker/accounts", "/broker/accounts/",
		"/market/markets", "/market/instruments", "/market/status", "/market/time", "/market/snapshot", "/market/book", "/market/calendar",
		"/market/trades", "/market/quotes", "/market/statuses", "/market/bars", "/market/export", "/market/stream", "/stream",
		"/.well-known/jwks.json", "/.well-known/oauth-authorization-server", "/livez", "/readyz", "/nowhere/",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			keep(a.request(method, path, "", "Authorization", "Bearer "+garbage))
			keep(a.request(method, path, "", "Authorization", "Basic "+garbage, "Cookie", "session="+garbage))
			keep(a.request(method, path+"?token="+garbage, ""))
			keep(a.request(method, path+"?access_token="+good.access, ""))
			keep(a.request(method, path+"?password="+garbage, `{"token":"`+garbage+`"}`, "Content-Type", asJSON))
			keep(a.request(method, path+garbage, "", "Authorization", "Bearer "+good.access+"x"))
			keep(a.request(method, path, "", "Origin", "https://"+garbage+".test", "User-Agent", "canary", "Referer", "https://x.test/?token="+garbage))
		}
		if path != "/market/stream" && path != "/stream" { // these do not end
			keep(a.request(http.MethodGet, path+"?"+garbage+"="+garbage, "", "Authorization", "Bearer "+good.access))
		}
	}
}

// overSockets sends secrets over the stream.
func (a *attacker) overSockets(c *canaries, good tokens, garbage string) {
	for _, message := range []string{
		`{"action":"auth_token","token":"` + garbage + `"}`,
		`{"action":"auth_token","token":"` + good.access + `x"}`,
		`{"action":"auth_token","token":"` + good.refresh + `"}`,
		`{"action":"` + garbage + `"}`, garbage, `{"action":"auth_token","token":"` + garbage, `{"token":"` + garbage + `"}`,
		`{"action":"auth_token","token":"` + good.access + `","session":"` + garbage + ` with spaces"}`,
	} {
		s := a.open()
		s.send(message)
		m := s.control()
		if what := c.find([]byte(m.text + m.Reason)); what != "" {
			a.Errorf("%s is in a message of the stream: %s", what, m.text)
		}
		s.nc.Close()
	}
	s := a.authenticated("ana")
	s.send(`{"action":"subscribe","trades":["GGAL|BYMA|24hs"]}`)
	s.expect("Subscription", 200, "")
	if _, err := a.tryOpen(a.from(), "Authorization", "Bearer "+garbage); err == nil {
		a.Error("a bad token was accepted at the handshake")
	}
	if _, err := a.tryOpen(a.from(), "Sec-WebSocket-Protocol", garbage); err != nil {
		a.Log("an unknown subprotocol:", err)
	}
	fmt.Fprintln(s.nc, garbage) // not a frame
	s.ends(1002, -1)
}
