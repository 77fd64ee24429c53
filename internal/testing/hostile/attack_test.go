//go:build unix

package hostile

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
	"github.com/ruedahq/rueda/internal/identity/database"
)

// TestAttacksE2E runs the attacks that need more than one input over each transport of the gateway.
// After each, the gateway serves normal clients and has released its resources.
func TestAttacksE2E(t *testing.T) {
	parallelUnlessFull(t)
	for i, set := range []settings{{NetListener: true}, {}, {TLS: true}, {TLS: true, TLSGoroutines: true}} {
		name := []string{"goroutines", "event loop", "event loop with TLS", "goroutines with TLS"}[i]
		set.Extra = true
		t.Run(name, func(t *testing.T) {
			parallelUnlessFull(t)
			s, next := start(t, set), new(atomic.Int32)
			warm := &attacker{T: t, server: s, network: 50 + i, next: next}
			warm.token("ana")
			warm.countLogins(12, "eve", passwordOf("eve"))
			warm.normalRequests(20)
			for _, attack := range []struct {
				name string
				run  func(*attacker)
			}{
				{"feed injection", injectFeed}, {"directory lockout", lockDirectory}, {"handshake memory", fillHandshakes},
				{"rebinding", rebind}, {"log flood", floodLog}, {"key rollback", rollBackKeys},
			} {
				before, files := s.figures(t), s.ask(t, "files")
				t.Run(attack.name, func(t *testing.T) {
					a := &attacker{T: t, server: s, network: 50 + i, next: next}
					attack.run(a)
					a.normalRequests(5)
				})
				s.released(t, before, files)
			}
		})
	}
}

// producer connects to the feed.
func (a *attacker) producer() net.Conn {
	a.Helper()
	d := net.Dialer{Timeout: 30 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(a.from())}}
	nc, err := d.Dial("tcp", strings.TrimSpace(a.ask(a, "feed")))
	if err != nil {
		a.Fatal(err)
	}
	if a.TLS {
		nc = tls.Client(nc, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a certificate of the test
	}
	return nc
}

// listed reports whether clients see an instrument with a symbol.
func (a *attacker) listed(symbol string) bool {
	a.Helper()
	r := a.request(http.MethodGet, "/market/instruments?q="+symbol, "", "Authorization", "Bearer "+a.token("ana"))
	a.want("instruments", r, http.StatusOK, "")
	return strings.Contains(string(r.body), symbol)
}

// injectFeed sends lines of a feed in requests of web pages and by programs without the token, many
// at a time. Nothing is published, and an honest producer is served.
func injectFeed(a *attacker) {
	lines := `{"type":"F","I":"EVIL|BYMA|24hs","price_decimals":2,"size_decimals":0}` + "\n" +
		`{"type":"T","I":"EVIL|BYMA|24hs","P":1,"Z":777}` + "\n" + `{"type":"H","I":"*|BYMA|*","E":"halt"}` + "\n"
	page := func(first string) string {
		return first + "\r\nHost: 127.0.0.1\r\nOrigin: https://evil.example\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\n" + lines
	}
	texts := []string{
		page("POST / HTTP/1.1"), page("GET / HTTP/1.1"), page("OPTIONS / HTTP/1.1"), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + lines,
		lines, "\n" + lines, `{"type":"Hello"}` + "\n" + lines, `{"type":"Hello","token":"` + feedToken + `x"}` + "\n" + lines,
		`{"type":"Hello","token":"` + strings.Repeat("x", 2<<20) + `"}` + "\n" + lines, "",
	}
	concurrently(20, 200, func(i int) {
		nc := a.producer()
		defer nc.Close()
		_, _ = io.WriteString(nc, texts[i%len(texts)]) // the gateway may have closed the connection
		_ = nc.SetReadDeadline(time.Now().Add(time.Minute))
		if answer, err := io.ReadAll(nc); err != nil && !isDisconnect(err) || strings.Contains(string(answer), "HTTP/") {
			a.Errorf("%.40q: %v, %.100q", texts[i%len(texts)], err, answer)
		}
	})
	honest := a.producer()
	defer honest.Close()
	if _, err := fmt.Fprintf(honest, "{\"type\":\"Hello\",\"token\":%q}\n%s", feedToken, strings.ReplaceAll(lines, "EVIL", "GOOD")); err != nil {
		a.Fatal(err)
	}
	a.eventually("the honest producer is served", func() bool { return a.listed("GOOD") })
	if a.listed("EVIL") {
		a.Error("an instrument of an attacker is listed")
	}
}

// lockDirectory guesses the password of an account from many networks. The account is not locked in
// the directory, and its owner gets in at the usual place.
func lockDirectory(a *attacker) {
	usual := *a
	usual.source = a.from()
	usual.login("target")
	concurrently(8, 60, func(i int) {
		guess := fmt.Sprintf(`{"grant_type":"password","username":"target","password":"guess %d"}`, i)
		address := fmt.Sprintf("127.%d.%d.1", 150+a.network, i+1) // a network of its own
		if r := a.requestFrom(address, http.MethodPost, "/auth/token", guess, "Content-Type", asJSON); r.status != 401 && r.status != 429 && r.status != 503 {
			a.Errorf("a guess: %d %s", r.status, r.body)
		}
	})
	if n := strings.TrimSpace(a.ask(a, "failures target")); len(n) != 1 || n[0]-'0' >= lockedAfter {
		a.Errorf("%s wrong passwords reached the directory, which locks after %d", n, lockedAfter)
	}
	usual.login("target")
}

// fillHandshakes sends unfinished handshakes as large as the gateway takes them, from several
// addresses, and keeps them open.
func fillHandshakes(a *attacker) {
	const addresses, each = 15, 100
	size := 15_000
	if a.TLS {
		size = 60_000
	}
	before := a.resetPeakMemory(a)
	var held [addresses * each]net.Conn
	concurrently(20, addresses, func(i int) {
		from := a.from()
		for k := range each {
			d := net.Dialer{Timeout: 30 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
			nc, err := d.Dial("tcp", a.address)
			if err != nil {
				a.Errorf("connect: %v", err)
				return
			}
			held[i*each+k] = nc
			_ = nc.SetWriteDeadline(time.Now().Add(bound(10 * time.Second)))
			_, _ = nc.Write(a.unfinished(size)) // the gateway may have closed the connection
		}
	})
	a.normalRequests(20)
	grew := a.peakMemory(a) - before
	for _, nc := range held {
		if nc != nil {
			_ = nc.Close()
		}
	}
	// Without limits, those of TLS cost 130 KB each, together 186 MiB.
	if most := 144 << 20; grew > most {
		a.Errorf("%d unfinished handshakes cost %d MiB", len(held), grew>>20)
	}
	a.Logf("figure: %d unfinished handshakes of %d bytes: %d MiB", len(held), size, grew>>20)
}

// unfinished returns the beginning of a handshake: of a ClientHello, or of an upgrade.
func (a *attacker) unfinished(size int) []byte {
	if !a.TLS {
		return []byte(upgrade + "X-Padding: " + strings.Repeat("x", size))
	}
	const record = 4096
	var b []byte
	for message := append([]byte{1, 0, byte(size >> 8), byte(size & 0xff)}, make([]byte, size-1)...); len(message) >= record; message = message[record:] {
		b = append(b, 22, 3, 1)
		b = binary.BigEndian.AppendUint16(b, record)
		b = append(b, message[:record]...)
	}
	return b
}

// rebind sends requests of a web page whose name was made to resolve to the gateway.
func rebind(a *attacker) {
	body := `{"grant_type":"password","username":"ana","password":"` + passwordOf("ana") + `"}`
	for _, host := range []string{"evil.example", "evil.example:8080", "127.0.0.1.evil.example", "gateway.test.evil.example"} {
		own := "\r\nHost: " + host + "\r\nOrigin: http://" + host + "\r\nConnection: close\r\n"
		for _, text := range []string{
			"POST /auth/token HTTP/1.1" + own + "Content-Type: application/json\r\nContent-Length: " + fmt.Sprint(len(body)) + "\r\n\r\n" + body,
			"GET /market/instruments HTTP/1.1" + own + "Authorization: Bearer " + a.token("ana") + "\r\n\r\n",
			"OPTIONS /auth/token HTTP/1.1" + own + "Access-Control-Request-Method: POST\r\n\r\n",
			strings.Replace(upgrade, "\r\nHost: gateway.test\r\n", "\r\nHost: "+host+"\r\nOrigin: http://"+host+"\r\n", 1) + "\r\n",
		} {
			answer := a.first(text)
			if status(answer) != http.StatusForbidden || strings.Contains(strings.ToLower(string(answer)), "access-control-allow-origin") {
				a.Errorf("%.80q: %.300q", text, answer)
			}
		}
	}
}

// floodLog sends requests without a login that are refused. The log has few lines about them, and
// those of users.
func floodLog(a *attacker) {
	before := strings.Count(a.log.String(), "\n")
	concurrently(4, 8, func(i int) {
		nc, err := a.dial(a.from())
		if err != nil {
			a.Errorf("connect: %v", err)
			return
		}
		defer nc.Close()
		go func() { _, _ = io.Copy(io.Discard, nc) }()
		path := []string{"/nowhere", "/market/instruments", "/broker/accounts", "/stream"}[i%4]
		request := []byte(strings.Repeat("GET "+path+" HTTP/1.1\r\nHost: gateway.test\r\nAuthorization: Bearer x\r\n\r\n", 50))
		_ = nc.SetWriteDeadline(time.Now().Add(time.Minute))
		for range 40 {
			if _, err := nc.Write(request); err != nil {
				return // closed
			}
		}
	})
	const users = 20
	a.normalRequests(users)
	// 60 of each of 8 addresses, and those of the users
	if n := strings.Count(a.log.String(), "\n") - before; n > 8*60+100 || n < users {
		a.Errorf("%d lines in the log", n)
	}
}

// rollBackKeys puts the key document of before a revocation back, as someone who can write the file
// could. The revoked key stays revoked.
func rollBackKeys(a *attacker) {
	stolen := a.login("ana").access
	name := filepath.Join(a.Folder, "keys.json")
	old, err := os.ReadFile(name)
	if err != nil {
		a.Fatal(err)
	}
	db, err := database.Open(a.Context(), database.Config{Folder: a.Folder})
	if err != nil {
		a.Fatal(err)
	}
	defer db.Close()
	keys, err := db.OperatorKeys(a.Context())
	if err != nil {
		a.Fatal(err)
	}
	for _, k := range keys.Keys() {
		if k.State == keyset.Signing {
			if _, err := keys.Rotate(a.Context(), keyset.Rotation{Now: true, Revoke: k.ID}); err != nil {
				a.Fatal(err)
			}
			break
		}
	}
	a.eventually("the token of the revoked key is refused", func() bool { return a.get(stolen).status == 401 })
	fresh := a.login("ana").access
	newest, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, old, 0o600)
	}
	if err != nil {
		a.Fatal(err)
	}
	a.eventually("the gateway notices the older document", func() bool {
		a.want("the token of the revoked key", a.get(stolen), 401, "")
		return strings.Contains(a.log.String(), "older")
	})
	a.want("a token of the new key", a.get(fresh), 200, "")
	if err := os.WriteFile(name, newest, 0o600); err != nil {
		a.Fatal(err)
	}
	a.mu.Lock()
	clear(a.logins) // their tokens were signed with the revoked key
	a.mu.Unlock()
}
