package browser

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

const newPassword = "another one of these tests"

// errorIs waits for the text below the fields of the login.
func (p *page) errorIs(text string) {
	p.t.Helper()
	p.until("the error "+text, fmt.Sprintf(`document.querySelector("[role=alert].error")?.innerText.startsWith(%q)`, text))
}

// enter fills the fields of the login, whose names and values are given in turn, and submits it.
func (p *page) enter(fields ...string) {
	p.t.Helper()
	for i := 0; i+1 < len(fields); i += 2 {
		selector := "input[name=" + fields[i] + "]"
		p.do(chromedp.WaitVisible(selector, chromedp.ByQuery))
		p.fill(selector, fields[i+1])
	}
	p.button("Sign in")
}

// TestPasswordMustChange signs in with a password that an operator has set for one use. The page asks
// for a new one, says why it is refused, and goes on with it.
func TestPasswordMustChange(t *testing.T) {
	g := serve(t)
	g.addUserWith("maria", true)
	p := open(t, g.clients, "/console/", allowing("403", "422"))
	p.enter("username", "maria", "password", userPassword)
	p.errorIs("Choose a new password. An operator knows the present one.")
	p.enter("next", "password123!")
	p.until("the weak password is refused", `document.querySelector("[role=alert].error")?.innerText && document.querySelector("input[name=next]").value === "password123!"`)
	p.enter("next", newPassword)
	p.live()
	p.button("Sign out")
	p.enter("username", "maria", "password", newPassword)
	p.live()
}

// TestSecondFactorLocked signs in after ten wrong codes with the right password. The page asks for a
// new password, which a recovery code permits, and then for a code.
func TestSecondFactorLocked(t *testing.T) {
	g := serve(t)
	g.addUser("maria")
	ask := func(path string, members ...string) map[string]any {
		body := map[string]string{"username": "maria", "password": userPassword}
		for i := 0; i+1 < len(members); i += 2 {
			body[members[i]] = members[i+1]
		}
		text, _ := json.Marshal(body)
		return g.request("", "POST", g.clients+path, string(text))
	}
	enrolment := ask("/auth/otp", "action", "enrol")
	secret := enrolment["secret"].(string)
	confirm, _ := json.Marshal(map[string]string{"action": "confirm", "enrolment": enrolment["enrolment"].(string), "otp": oneTime(t, secret, -1)})
	recovery := g.request("", "POST", g.clients+"/auth/otp", string(confirm))["recovery_codes"].([]any)[0].(string)
	wrong := "000000"
	for slices.Contains([]string{oneTime(t, secret, -1), oneTime(t, secret, 0), oneTime(t, secret, 1), oneTime(t, secret, 2)}, wrong) {
		wrong = "1" + wrong[1:]
	}
	for range 10 {
		body := fmt.Sprintf(`{"grant_type":"password","username":"maria","password":%q,"otp":%q}`, userPassword, wrong)
		answer, err := http.Post(g.clients+"/auth/token", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if answer.Body.Close(); answer.StatusCode != http.StatusUnauthorized {
			t.Fatalf("a wrong code: %s", answer.Status)
		}
	}
	p := open(t, g.clients, "/console/", allowing("401", "403"))
	p.enter("username", "maria", "password", userPassword)
	p.enter("otp", oneTime(t, secret, 0))
	p.errorIs("Too many codes were wrong, and somebody may know your password.")
	p.enter("otp", wrong, "next", newPassword)
	p.errorIs("Too many codes were wrong")
	p.enter("otp", recovery, "next", newPassword)
	p.until("the new password is set", `!document.querySelector("input[name=next]") && document.querySelector("input[name=otp]")?.value === ""`)
	p.enter("otp", oneTime(t, secret, 0))
	p.live()
}

// oneTime returns the one-time password of a secret some steps from now.
func oneTime(t *testing.T, secret string, steps int64) string {
	t.Helper()
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha1.New, key)
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(time.Now().Unix()/30+steps)))
	sum := mac.Sum(nil)
	at := sum[len(sum)-1] & 15
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[at:])&0x7fffffff%1_000_000)
}
