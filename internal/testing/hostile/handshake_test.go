//go:build unix

package hostile

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// handshakeInputs returns the inputs of the upgrade to a WebSocket.
func handshakeInputs() []input {
	ask := func(a *attacker, head string) []byte {
		a.Helper()
		return a.first(head + "Connection: close\r\n\r\n")
	}
	without := func(line string) string {
		return strings.Replace(upgrade, line, "", 1)
	}
	const key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	refused := func(a *attacker, what string, answer []byte, code int) {
		a.Helper()
		if s := status(answer); s != code {
			a.Errorf("%s: %d, want %d: %.200q", what, s, code, answer)
		}
	}
	return []input{
		{82, "key", func(a *attacker) {
			refused(a, "none", a.first(without(key)+"\r\n"), 400)
			refused(a, "short", a.first(strings.Replace(upgrade, "dGhlIHNhbXBsZSBub25jZQ==", "c2hvcnQ=", 1)+"\r\n"), 400)
			refused(a, "two", a.first(upgrade+key+"\r\n"), 400)
		}},
		{83, "version 8", func(a *attacker) {
			got := a.first(strings.Replace(upgrade, "Version: 13", "Version: 8", 1) + "\r\n")
			refused(a, "8", got, 426)
			if !strings.Contains(strings.ToLower(string(got)), "sec-websocket-version: 13") {
				a.Errorf("no version offered: %q", got)
			}
		}},
		{84, "POST", func(a *attacker) { refused(a, "POST", ask(a, strings.Replace(upgrade, "GET", "POST", 1)), 405) }},
		{85, "Origin", func(a *attacker) {
			for _, o := range []string{"https://evil.test", "null", "https://gateway.test.evil.test", "https://evilgateway.test", "file://", "https://gateway.test@evil.test"} {
				refused(a, o, a.first(upgrade+"Origin: "+o+"\r\n\r\n"), 403)
			}
			scheme := "http"
			if a.TLS {
				scheme = "https"
			}
			// A page of a name that was made to resolve to the gateway.
			refused(a, "rebinding", a.first(strings.Replace(upgrade, "gateway.test", "evil.test", 1)+"Origin: "+scheme+"://evil.test\r\n\r\n"), 403)
			if _, err := a.tryOpen(a.from(), "Origin", scheme+"://gateway.test"); err != nil {
				a.Errorf("its own host: %v", err)
			}
		}},
		{86, "token outside the protocol", func(a *attacker) {
			for _, name := range []string{"token", "access_token", "jwt"} {
				refused(a, name, a.first(strings.Replace(upgrade, "/stream", "/stream?"+name+"="+a.token("ana"), 1)+"\r\n"), 400)
			}
			// A token as a subprotocol is unknown: the connection uses JSON and is not authenticated.
			s, err := a.tryOpen(a.from(), "Sec-WebSocket-Protocol", a.token("ana"))
			if err != nil {
				return // refused, which is correct too
			}
			s.send(`{"action":"subscriptions"}`)
			s.expect("Error", 401, "not_authenticated")
		}},
		{87, "half a handshake", func(a *attacker) {
			begin := time.Now()
			got := a.raw(upgrade[:60], time.Minute)
			if took := time.Since(begin); took > bound(12*time.Second) {
				a.Errorf("held for %v", took)
			}
			if s := status(got); s != 0 && s != 408 && s != 400 {
				a.Errorf("answered %d", s)
			}
		}},
		{88, "sockets that never authenticate", holdUnauthenticated},
		{89, "frame in the packet of the handshake", func(a *attacker) {
			nc, err := a.dial(a.from())
			if err != nil {
				a.Fatal(err)
			}
			a.Cleanup(func() { nc.Close() })
			b := []byte(upgrade + "\r\n")
			b = appendFrame(b, fin|opText, []byte(`{"action":"auth_token","token":"`+a.token("ana")+`"}`))
			b = appendFrame(b, fin|opText, []byte(`{"action":"subscribe","id":1,"trades":["GGAL|BYMA|24hs"]}`))
			b = appendFrame(b, fin|opText, []byte(`{"action":"subscribe","id":2,"trades":["GGAL|BYMA|CI"]}`))
			if _, err := nc.Write(b); err != nil {
				a.Fatal(err)
			}
			s := a.upgraded(nc)
			s.expect("Success", 200, "")
			for want := range 2 {
				if m := s.expect("Subscription", 200, ""); m.ID != float64(want+1) {
					a.Errorf("answer %v out of order", m.ID)
				}
			}
		}},
	}
}

// holdUnauthenticated opens sockets that never authenticate, from one address and then from many.
func holdUnauthenticated(a *attacker) {
	one := a.from()
	var all []net.Conn
	ended := func(nc net.Conn) {
		_ = nc.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.Copy(io.Discard, nc); err != nil && !isDisconnect(err) {
			a.Fatalf("a socket that never authenticated was kept: %v", err)
		}
		nc.Close()
	}
	var own []net.Conn
	for range 200 {
		s, err := a.tryOpen(one)
		if err != nil {
			a.Fatal(err)
		}
		if own = append(own, s.nc); len(own) > 32 { // the oldest of the address
			ended(own[0])
			own = own[1:]
		}
	}
	all = append(all, own...)
	for range count(20_000) / 30 {
		from := a.from()
		for range 30 {
			if s, err := a.tryOpen(from); err == nil {
				all = append(all, s.nc)
			} else {
				a.Fatal(err)
			}
		}
		for len(all) > 12_000 { // the oldest of more than 10,000 were closed
			ended(all[0])
			all = all[1:]
		}
	}
	s := a.open() // a client with a token gets in
	s.send(`{"action":"auth_token","token":"` + a.token("ana") + `"}`)
	s.expect("Success", 200, "")
	for _, nc := range all { // all are ended with auth_timeout after 10 s
		ended(nc)
	}
}

// authInputs returns the inputs of messages before and at authentication.
func authInputs() []input {
	return []input{
		{91, "subscribe before authentication", func(a *attacker) {
			s := a.open()
			for range 9 {
				s.send(`{"action":"subscribe","trades":["GGAL|BYMA|24hs"]}`)
				s.expect("Error", 401, "not_authenticated")
			}
			s.send(`{"action":"subscribe","trades":["GGAL|BYMA|24hs"]}`)
			s.refuses(429, "too_many_failures", 4429)
		}},
		{92, "auth_token with nonsense", func(a *attacker) {
			f := a.forge("ana")
			old := time.Now().Add(-time.Hour).Unix()
			expired := f.withClaims(map[string]any{"exp": old, "iat": old - 60, "nbf": old - 60}).token()
			for _, c := range []struct{ message, reason string }{
				{`{"action":"auth_token","token":"` + expired + `"}`, "token_expired"},
				{`{"action":"auth_token","token":"garbage"}`, "invalid_token"},
				{`{"action":"auth_token","token":""}`, "invalid_token"},
			} {
				s := a.open()
				s.send(c.message)
				s.refuses(401, c.reason, 4401)
			}
			for _, m := range []string{`{"action":"auth_token","token":1}`, `{"action":"auth_token"}`, `{"action":"auth_token","token":null}`} {
				s := a.open()
				s.send(m)
				s.expect("Error", 400, "bad_field")
			}
			s := a.open()
			s.send(`{"action":"auth_token","token":"` + strings.Repeat("x", 1<<20) + `"}`)
			s.tooBig()
		}},
		{93, "authentication twice", func(a *attacker) {
			s := a.authenticated("ana")
			s.send(`{"action":"auth_token","token":"` + a.token("ana") + `"}`)
			s.expect("Success", 200, "")
			s.send(`{"action":"auth_token","token":"` + a.token("eve") + `"}`)
			s.expect("Error", 403, "subject_mismatch")
			s.alive()
		}},
		{94, "token that expires while streaming", func(a *attacker) {
			own := &attacker{T: a.T, server: start(a.T, settings{TLS: a.TLS, TLSGoroutines: a.TLSGoroutines, ShortTokens: true}), network: a.network, next: a.next}
			s := own.authenticated("ana")
			exp, err := own.forge("ana").claims["exp"].(json.Number).Int64()
			if err != nil {
				a.Fatal(err)
			}
			s.refuses(401, "token_expired", 4401)
			due := time.Unix(exp, 0).Add(5 * time.Second)
			if late := time.Since(due); late < -time.Second || late > bound(2*time.Second) {
				a.Errorf("closed %v after the deadline, which is 5 s after the end of its token", late)
			}
		}},
		{95, "revoked while streaming", func(a *attacker) {
			t := a.login("user11")
			s := a.open()
			s.send(`{"action":"auth_token","token":"` + t.access + `"}`)
			s.expect("Success", 200, "")
			a.want("revoke", a.request("POST", "/auth/revoke", `{"token":"`+t.refresh+`"}`, "Content-Type", asJSON), 200, "")
			begin := time.Now()
			s.refuses(401, "token_revoked", 4401)
			if took := time.Since(begin); took > bound(time.Second) {
				a.Errorf("closed after %v", took)
			}
		}},
	}
}

// tooBig expects the refusal of a message that is too big. The rest of it may reach a closed
// socket.
func (s *socket) tooBig() {
	s.Helper()
	for {
		m := s.control()
		switch {
		case m.closed == 4413 || m.closed == -1:
			return
		case m.closed != 0:
			s.Fatalf("closed %d %s, want 4413", m.closed, m.Reason)
		case m.Type == "Error" && m.Reason != "message_too_big":
			s.Fatalf("%s", m.text)
		}
	}
}

// deadlineInputs returns the inputs for a server with short deadlines.
func deadlineInputs() []input {
	return []input{
		{90, "nothing after the handshake", func(a *attacker) { a.open().refuses(408, "auth_timeout", 4408) }},
		{107, "no pong", func(a *attacker) { a.authenticated("ana").refuses(504, "pong_timeout", 4504) }},
		{108, "unsolicited pongs", func(a *attacker) {
			s := a.authenticated("ana")
			for range 50 {
				s.send(`{"action":"pong"}`)
			}
			s.alive()
		}},
		{119, "drain", func(a *attacker) {
			own := &attacker{T: a.T, server: start(a.T, settings{TLS: a.TLS, TLSGoroutines: a.TLSGoroutines}), network: a.network, next: a.next}
			s := own.authenticated("ana")
			fmt.Fprintln(own.in, "end")
			if m := s.expect("Warning", 200, "shutting_down"); !strings.Contains(m.text, "reconnect_in_ms") {
				a.Errorf("no reconnect time: %s", m.text)
			}
			s.refuses(503, "shutting_down", 4503)
			_ = own.cmd.Wait()
		}},
	}
}
