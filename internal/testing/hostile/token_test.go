//go:build unix

package hostile

import (
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite"

	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
)

// tokenInputs returns the inputs of POST /auth/token with a password.
func tokenInputs() []input {
	good := func(name, password string) string {
		b, _ := json.Marshal(map[string]string{"grant_type": "password", "username": name, "password": password})
		return string(b)
	}
	ana := good("ana", passwordOf("ana"))
	return []input{
		{1, "empty body", func(a *attacker) {
			a.want("empty", a.request("POST", "/auth/token", "", "Content-Type", asJSON), 400, "")
		}},
		{2, "null", func(a *attacker) { a.want("null", a.post("null"), 400, "") }},
		{3, "not an object", func(a *attacker) { a.each(400, "", "[]", `"x"`, "1", "true") }},
		{4, "truncated", func(a *attacker) { a.each(400, "", ana[:len(ana)-1], ana[:20], "{") }},
		{5, "trailing bytes", func(a *attacker) { a.each(400, "", ana+"{}", ana+"x", ana+ana) }},
		{6, "duplicate key", func(a *attacker) { a.each(400, "", `{"grant_type":"password",`+ana[1:]) }},
		{7, "key in capitals", func(a *attacker) { a.each(400, "", strings.Replace(ana, "grant_type", "GRANT_TYPE", 1)) }},
		{8, "unknown fields", func(a *attacker) {
			a.ignored(`{"shoe_size":43,"nested":{"a":[1]},` + ana[1:])
			a.each(400, "", `{"Password":"x",`+ana[1:])
		}},
		{9, "deep nesting", func(a *attacker) {
			a.each(400, "", `{"x":`+strings.Repeat("[", 3_900)+strings.Repeat("]", 3_900)+","+ana[1:])
			a.each(413, "", `{"x":`+strings.Repeat("[", 20_000))
		}},
		{10, "byte order mark", func(a *attacker) { a.each(400, "", "\ufeff"+ana) }},
		{11, "invalid UTF-8 in the password", func(a *attacker) { a.each(400, "", strings.Replace(ana, "password of", "pass\xff of", 1)) }},
		{12, "lone surrogate", func(a *attacker) { a.each(400, "", strings.Replace(ana, "password of", `\ud800`, 1)) }},
		{13, "control characters in the username", func(a *attacker) {
			a.each(400, "", strings.Replace(ana, `"ana"`, `"an\u0000a"`, 1), strings.Replace(ana, `"ana"`, `"an\na"`, 1))
		}},
		{14, "length of the password", func(a *attacker) {
			a.each(401, "invalid_credentials", good("user0", strings.Repeat("p", 1024)))
			a.each(400, "", good("user0", strings.Repeat("p", 1025)))
		}},
		{15, "body of 8,193 bytes", func(a *attacker) { a.each(413, "body_too_big", ana+strings.Repeat(" ", 8193-len(ana))) }},
		{16, "empty password", func(a *attacker) { a.each(401, "invalid_credentials", good("user0", "")) }},
		{17, "spaces around the password", func(a *attacker) {
			a.each(200, "", good("mute", passwordOf("mute")))
			a.each(401, "invalid_credentials", good("mute", strings.TrimSpace(passwordOf("mute"))), good("mute", passwordOf("mute")+" "))
		}},
		{18, "password that is not text", func(a *attacker) {
			for _, p := range []string{`{"$ne":1}`, `["x"]`, "1", "null", "true"} {
				a.each(400, "", `{"grant_type":"password","username":"ana","password":`+p+`}`)
			}
		}},
		{19, "other grants", func(a *attacker) {
			for _, g := range []string{"client_credentials", "Password", " password", "authorization_code", ""} {
				a.each(400, "unsupported_grant_type", strings.Replace(ana, `"password"`, fmt.Sprintf("%q", g), 1))
			}
		}},
		{20, "fields of both grants", func(a *attacker) {
			a.ignored(`{"refresh_token":"nonsense",` + ana[1:])
			a.each(401, "invalid_refresh_token", `{"grant_type":"refresh_token","refresh_token":"nonsense","username":"ana","password":"`+passwordOf("ana")+`"}`)
		}},
		{21, "media type", func(a *attacker) {
			a.want("none", a.request("POST", "/auth/token", ana), 415, "unsupported_media_type")
			for _, m := range []string{"text/plain", "application/x-www-form-urlencoded", "application/jsonp", "multipart/form-data; boundary=x"} {
				a.want(m, a.post(ana, "Content-Type", m), 415, "unsupported_media_type")
			}
		}},
		{22, "charset", func(a *attacker) {
			a.want("utf-8", a.post(ana, "Content-Type", "application/json; charset=utf-8"), 200, "")
			a.want("latin1", a.post(ana, "Content-Type", "application/json; charset=latin1"), 415, "unsupported_media_type")
		}},
		{23, "compressed body", func(a *attacker) { a.want("gzip", a.post(ana, "Content-Encoding", "gzip"), 415, "") }},
		{24, "other methods", func(a *attacker) {
			for _, m := range []string{"GET", "PUT", "DELETE", "PATCH", "OPTIONS"} {
				r := a.request(m, "/auth/token", "")
				a.want(m, r, 405, "method_not_allowed")
				if r.header.Get("Allow") != "POST" {
					a.Errorf("%s: Allow is %q", m, r.header.Get("Allow"))
				}
			}
		}},
		{25, "credentials in the query", func(a *attacker) {
			a.want("query", a.request("POST", "/auth/token?username=ana&password=x", ana, "Content-Type", asJSON), 400, "")
		}},
		{26, "Authorization header", func(a *attacker) {
			a.want("garbage", a.post(ana, "Authorization", "Bearer garbage"), 200, "")
			a.want("basic", a.post(ana, "Authorization", "Basic YTpi"), 200, "")
		}},
		{27, "metacharacters", func(a *attacker) {
			for _, name := range []string{"' OR 1=1 --", `"; DROP TABLE users; --`, "*)(uid=*", "ana'--", "%", `ana" AND "1"="1`} {
				a.each(401, "invalid_credentials", good(name, "x"))
			}
		}},
		{28, "username of a megabyte, in chunks", func(a *attacker) {
			body := good(strings.Repeat("u", 1<<20), "x")
			var b strings.Builder
			for chunk := range chunks(body, 4096) {
				fmt.Fprintf(&b, "%x\r\n%s\r\n", len(chunk), chunk)
			}
			r := a.request("POST", "/auth/token", b.String()+"0\r\n\r\n", "Content-Type", asJSON, "Transfer-Encoding", "chunked")
			a.want("chunked", r, 413, "body_too_big")
		}},
		{29, "1,000 valid logins at the same time", manyRight},
		{30, "1,000 wrong logins at the same time", manyWrong},
		{31, "look-alike username", func(a *attacker) {
			a.each(401, "invalid_credentials", good("аna", passwordOf("ana")), good("ana\u200b", passwordOf("ana")), good("Ana", passwordOf("ana")), good("ａna", passwordOf("ana")))
		}},
		{32, "client hangs up during the check", hangUp},
	}
}

func (a *attacker) each(status int, reason string, bodies ...string) {
	a.Helper()
	for _, b := range bodies {
		a.want(fmt.Sprintf("%.60q", b), a.post(b), status, reason)
	}
}

// ignored logs in with members that the contract does not have.
func (a *attacker) ignored(body string) {
	a.Helper()
	a.want("ignored members", a.post(body, "X-Request-Id", openapitest.IgnoredMembers), 200, "")
}

func chunks(s string, n int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for len(s) > 0 {
			k := min(n, len(s))
			if !yield(s[:k]) {
				return
			}
			s = s[k:]
		}
	}
}

// countLogins logs in n times at the same time and counts the answers by status.
func (a *attacker) countLogins(n int, name, password string) map[int]int {
	var mu sync.Mutex
	var wg sync.WaitGroup
	got := map[int]int{}
	for range n {
		from := a.from()
		wg.Go(func() {
			nc, err := a.dial(from)
			if err != nil {
				a.Error(err)
				return
			}
			defer nc.Close()
			r, err := roundTrip(nc, "POST", "/auth/token", fmt.Sprintf(`{"grant_type":"password","username":%q,"password":%q}`, name, password), "Content-Type", asJSON)
			if err != nil {
				a.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			got[r.status]++
			if (r.status == 429 || r.status == 503) && r.header.Get("Retry-After") == "" {
				a.Errorf("%d without Retry-After", r.status)
			}
		})
	}
	wg.Wait()
	return got
}

func manyRight(a *attacker) {
	n := count(1000)
	got := a.countLogins(n, "crowd", passwordOf("crowd"))
	if got[200] == 0 || got[200]+got[503]+got[429] != n {
		a.Errorf("answers by status %v, want 200, and 503 for clients that would wait too long", got)
	}
}

func manyWrong(a *attacker) {
	n := max(count(1000), 100)
	got := a.countLogins(n, "target", "wrong password")
	// All new networks together have 5 attempts for an account, and 20 more. The others wait for
	// these, whose passwords are checked one after another, for 5 s at most.
	if got[401] == 0 || got[401] > 25 || got[401] == 25 && got[429] == 0 || got[401]+got[429]+got[503] != n {
		a.Errorf("answers by status %v, want a few 401, and then 429, or 503 after a long wait", got)
	}
}

func hangUp(a *attacker) {
	for range 20 {
		nc, err := a.dial(a.from())
		if err != nil {
			a.Fatal(err)
		}
		body := `{"grant_type":"password","username":"user1","password":"` + passwordOf("user1") + `"}`
		fmt.Fprintf(nc, "POST /auth/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		nc.Close()
	}
	first := a.login("user1")
	a.eventually("a client that hung up has no family", func() bool {
		var families int
		a.database(func(db *sql.DB) error {
			return db.QueryRow(`SELECT count(*) FROM families f JOIN users u ON u.id = f.user_id WHERE u.username = 'user1'`).Scan(&families)
		})
		return families >= 1 && families <= 20 // a check may end before the gateway notices the end
	})
	a.want("slots are available again", a.get(first.access), 200, "")
}

// eventually waits until holds returns true, for at most a minute.
func (a *attacker) eventually(what string, holds func() bool) {
	a.Helper()
	a.within(time.Minute, what, holds)
}

func (a *attacker) within(long time.Duration, what string, holds func() bool) {
	a.Helper()
	for end := time.Now().Add(long); !holds(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			a.Fatalf("did not happen: %s", what)
		}
	}
}

// database opens the gateway's database while the gateway runs.
func (a *attacker) database(do func(*sql.DB) error) {
	a.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(a.Folder, "rueda.db")+"?_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		a.Fatal(err)
	}
	defer db.Close()
	if err := do(db); err != nil {
		a.Fatal(err)
	}
}

// age makes the logins of a user older, as if time had passed.
func (a *attacker) age(name string, by time.Duration) {
	a.Helper()
	a.database(func(db *sql.DB) error {
		const mine = `(SELECT f.id FROM families f JOIN users u ON u.id = f.user_id WHERE u.username = ?2)`
		if _, err := db.Exec(`UPDATE refresh_tokens SET issued_at = issued_at - ?1, valid_until = valid_until - ?1, expires_at = expires_at - ?1, dead_at = dead_at - ?1 WHERE family IN `+mine,
			int64(by), name); err != nil {
			return err
		}
		_, err := db.Exec(`UPDATE families SET created_at = created_at - ?1, used_at = used_at - ?1 WHERE id IN `+mine, int64(by), name)
		return err
	})
}

// refreshInputs returns the inputs of POST /auth/token with a refresh token. Those that end logins
// have their own user.
func refreshInputs() []input {
	dead := func(a *attacker, name string, after time.Duration) (parent, child tokens) {
		parent = a.login(name)
		child = tokensOf(a.refresh(parent.refresh))
		a.want("use of the child", a.refresh(child.refresh), 200, "")
		a.age(name, after)
		return parent, child
	}
	return []input{
		{33, "one character changed", func(a *attacker) {
			t := a.login("user2").refresh
			for _, at := range []int{5, 20, len(t) - 1} {
				other := byte('A')
				if t[at] == other {
					other = 'B'
				}
				a.want("changed", a.refresh(t[:at]+string(other)+t[at+1:]), 401, "invalid_refresh_token")
			}
			a.want("unchanged", a.refresh(t), 200, "")
		}},
		{34, "unknown but well formed", func(a *attacker) { a.want("made up", a.refresh(inventedRefresh()), 401, "invalid_refresh_token") }},
		{35, "access token as refresh token", func(a *attacker) {
			a.want("access", a.refresh(a.token("ana")), 401, "invalid_refresh_token")
		}},
		{36, "refresh token as access token", func(a *attacker) {
			a.want("refresh", a.get(a.login("user3").refresh), 401, "invalid_token")
		}},
		{37, "64 at the same time", func(a *attacker) {
			parent := a.login("user4").refresh
			var wg sync.WaitGroup
			var mu sync.Mutex
			children := map[string]int{}
			for range 64 {
				wg.Go(func() {
					r := a.refresh(parent)
					mu.Lock()
					defer mu.Unlock()
					a.want("one of 64", r, 200, "")
					children[tokensOf(r).refresh]++
				})
			}
			wg.Wait()
			if len(children) != 64 {
				a.Errorf("%d different successors, want 64", len(children))
			}
			used := 0
			for child := range children { // only the first one that is used continues the login
				if used++; used == 1 {
					a.want("the first child", a.refresh(child), 200, "")
				} else if used <= 3 { // 64 would be over the rate limit of a login
					a.want("another child", a.refresh(child), 401, "invalid_refresh_token")
				}
			}
		}},
		{38, "dead parent", func(a *attacker) {
			a.source = a.from()                               // an accident within the grace period has one network
			parent, child := dead(a, "user5", 15*time.Second) // half of the grace period
			a.want("late", a.refresh(parent.refresh), 401, "invalid_refresh_token")
			a.want("the family lives", a.refresh(child.refresh), 200, "")
			s := a.open()
			s.send(`{"action":"auth_token","token":"` + child.access + `"}`)
			s.expect("Success", 200, "")
			a.age("user5", 16*time.Second)
			a.want("reuse", a.refresh(parent.refresh), 401, "invalid_refresh_token")
			a.want("the family is dead", a.refresh(child.refresh), 401, "invalid_refresh_token")
			a.want("its access token too", a.get(child.access), 401, "token_revoked")
			s.refuses(401, "token_revoked", 4401)
		}},
		{39, "parent again, child unused", func(a *attacker) {
			parent := a.login("user6")
			first := tokensOf(a.refresh(parent.refresh))
			a.age("user6", 10*24*time.Hour)
			again := a.refresh(parent.refresh)
			a.want("again", again, 200, "")
			if tokensOf(again).refresh == first.refresh {
				a.Error("the same successor twice")
			}
			a.want("the first child", a.refresh(first.refresh), 200, "")
			a.want("its sibling", a.refresh(tokensOf(again).refresh), 401, "invalid_refresh_token")
		}},
		{40, "end of the 30 days", func(a *attacker) {
			parent := a.login("user7").refresh
			a.age("user7", 30*24*time.Hour-20*time.Second)
			a.want("just before", a.refresh(parent), 200, "")
			a.age("user7", 21*time.Second)
			a.want("just after", a.refresh(parent), 401, "invalid_refresh_token")
		}},
		{41, "disabled user", func(a *attacker) {
			t := a.login("user8")
			a.ask(a, "disable user8")
			a.want("refresh", a.refresh(t.refresh), 401, "invalid_refresh_token")
			a.each(401, "invalid_credentials", `{"grant_type":"password","username":"user8","password":"`+passwordOf("user8")+`"}`)
			a.want("access", a.get(t.access), 401, "token_revoked")
		}},
		{42, "database that cannot be written", func(a *attacker) {
			t := a.login("user9")
			a.database(func(db *sql.DB) error {
				tx, err := db.Begin() // takes the write lock
				if err != nil {
					return err
				}
				r := a.refresh(t.refresh)
				a.want("locked", r, 503, "unavailable")
				if r.header.Get("Retry-After") == "" {
					a.Error("503 without Retry-After")
				}
				a.want("cached token", a.get(t.access), 200, "")
				return tx.Rollback()
			})
			a.want("free again", a.refresh(t.refresh), 200, "")
		}},
		{43, "killed between commit and answer", killedRefresh},
		{44, "white space around the token", func(a *attacker) {
			t := a.login("user10").refresh
			for _, w := range []string{t + " ", " " + t, t + `\n`, `\t` + t, t[:20] + `\n` + t[20:]} {
				a.want(fmt.Sprintf("%q", w[:8]), a.refresh(w), 401, "invalid_refresh_token")
			}
		}},
		{45, "token of 10 KB", func(a *attacker) {
			a.want("5 KB", a.refresh("rt1_"+strings.Repeat("A", 5<<10)), 400, "invalid_request")
			a.want("10 KB", a.refresh("rt1_"+strings.Repeat("A", 10<<10)), 413, "body_too_big")
		}},
	}
}

// inventedRefresh returns a refresh token with a valid checksum that no gateway has issued.
func inventedRefresh() string {
	var b [32]byte
	_, _ = rand.Read(b[:])
	return "rt1_" + base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(b[:], crc32.ChecksumIEEE(b[:])))
}

// killedRefresh kills a gateway during a refresh and starts it again. The parent is still valid,
// and so is a successor that the client received before the kill.
func killedRefresh(a *attacker) {
	for round := range 2 {
		set := a.settings
		set.Folder = a.TempDir()
		attacked := &attacker{T: a.T, server: start(a.T, set), network: a.network, next: a.next}
		t := attacked.login("user0")
		nc, err := attacked.dial(attacked.from())
		if err != nil {
			a.Fatal(err)
		}
		body := `{"grant_type":"refresh_token","refresh_token":"` + t.refresh + `"}`
		fmt.Fprintf(nc, "POST /auth/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		<-time.After(time.Duration(round+1) * 400 * time.Microsecond) // the time of the kill; it waits for nothing
		_ = attacked.cmd.Process.Kill()
		_ = attacked.cmd.Wait()
		got, _ := io.ReadAll(nc)
		nc.Close()
		again := &attacker{T: a.T, server: start(a.T, set), network: a.network, next: a.next}
		r := again.refresh(t.refresh)
		again.want("retry", r, 200, "")
		child := tokensOf(r).refresh
		if answered := regexp.MustCompile(`"refresh_token":"([^"]*)"`).FindSubmatch(got); answered != nil {
			child = string(answered[1])
		}
		again.want("successor", again.refresh(child), 200, "")
		again.stop(a.T)
	}
}
