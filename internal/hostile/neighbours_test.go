//go:build unix

package hostile

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// neighbour is a client without a login that does one thing again and again, from the address of
// others.
type neighbour struct {
	name  string
	first int      // at once
	rate  int      // then a second
	holds int      // connections that are kept open
	costs []string // others whom it costs something as fast as it can
	// send does it once. It may use nc again if that is not nil, and returns the connection to keep.
	send func(a *attacker, nc net.Conn, from string) (net.Conn, error)
}

// neighbours returns the five ways in which a client without a login kept others at its address
// out, with their cost.
func neighbours() []neighbour {
	write := func(text string) func(*attacker, net.Conn, string) (net.Conn, error) {
		return func(a *attacker, _ net.Conn, from string) (net.Conn, error) {
			nc, err := a.dial(from)
			if err != nil {
				return nil, err
			}
			_, err = io.WriteString(nc, text)
			return nc, err
		}
	}
	ask := func(text func() string) func(*attacker, net.Conn, string) (net.Conn, error) {
		return func(a *attacker, nc net.Conn, from string) (net.Conn, error) {
			var err error
			if nc == nil {
				if nc, err = a.dial(from); err != nil {
					return nil, err
				}
			}
			_ = nc.SetDeadline(time.Now().Add(time.Minute))
			if _, err := io.WriteString(nc, text()); err != nil {
				return nc, err
			}
			res, err := http.ReadResponse(bufio.NewReader(nc), nil)
			if err != nil {
				return nc, err
			}
			_, err = io.Copy(io.Discard, res.Body)
			if res.Close {
				err = io.EOF
			}
			return nc, err
		}
	}
	return []neighbour{
		{"silent sockets", 32, 3, 40, []string{"a page"}, write(upgrade + "\r\n")},
		{"idle connections", 1_000, 17, 1_100, []string{"a new login and its token", "a refresh"}, write("GET /livez HTTP/1.1\r\nHost: gateway.test\r\n\r\n")},
		{"invalid handshakes", 200, 20, 0, nil, ask(func() string {
			return strings.Replace(upgrade, "Version: 13", "Version: 7", 1) + "\r\n"
		})},
		{"invented refresh tokens", 205, 4, 0, nil, ask(func() string {
			body := `{"grant_type":"refresh_token","refresh_token":"` + inventedRefresh() + `"}`
			return fmt.Sprintf("POST /auth/token HTTP/1.1\r\nHost: gateway.test\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		})},
		{"invented access tokens", 600, 200, 0, nil, ask(func() string {
			signature := make([]byte, 64)
			for i := range signature {
				signature[i] = byte(rand.Uint32())
			}
			return "GET /auth/sessions HTTP/1.1\r\nHost: gateway.test\r\nAuthorization: Bearer eyJhbGciOiJFUzI1NiIsImtpZCI6IngiLCJ0eXAiOiJhdCtqd3QifQ.e30." +
				base64.RawURLEncoding.EncodeToString(signature) + "\r\n\r\n"
		})},
	}
}

// run does what the neighbour does from an address until stop is closed, on all workers together at
// its rate. sent counts how often. ready is closed after the first ones.
func (n *neighbour) run(a *attacker, from string, workers int, stop <-chan struct{}, sent *atomic.Int64, ready chan<- struct{}) {
	began := time.Now()
	var all sync.WaitGroup
	var once sync.Once
	for range workers {
		all.Go(func() {
			var held []net.Conn
			defer func() {
				for _, nc := range held {
					nc.Close()
				}
			}()
			var nc net.Conn
			for {
				k := sent.Add(1)
				if k > int64(n.first) {
					once.Do(func() { close(ready) })
				}
				wait := time.Until(began.Add(time.Duration(max(0, k-int64(n.first))) * time.Second / time.Duration(n.rate)))
				select {
				case <-stop:
					if nc != nil {
						nc.Close()
					}
					return
				case <-time.After(max(0, wait)):
				}
				used, err := n.send(a, nc, from)
				nc = nil
				switch {
				case used == nil:
				case err != nil:
					used.Close()
				case n.holds == 0:
					nc = used
				default:
					if held = append(held, used); len(held) > max(1, n.holds/workers) {
						held[0].Close()
						held = held[1:]
					}
				}
			}
		})
	}
	all.Wait()
}

// other is a client with a right to be served. try returns "", or how it was refused.
type other struct {
	name string
	try  func(i int) string
}

// refusedBy returns "" for an answer with a status that is wanted.
func refusedBy(r *reply, err error, status int) string {
	switch {
	case err != nil:
		return "no answer"
	case r.status != status:
		return fmt.Sprint(r.status, " ", r.reason)
	}
	return ""
}

// askFrom sends a request on a connection of its own, from an address.
func (a *attacker) askFrom(from, method, target, body string, headers ...string) (*reply, error) {
	nc, err := a.dial(from)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	return roundTrip(nc, method, target, body, headers...)
}

// authenticateAfter connects as a page does: the token follows the handshake after a pause.
func (a *attacker) authenticateAfter(pause time.Duration, from, token string, headers ...string) string {
	nc, err := a.dial(from)
	if err != nil {
		return "not connected"
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	head := upgrade
	for i := 0; i+1 < len(headers); i += 2 {
		head += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	if _, err := io.WriteString(nc, head+"\r\n"); err != nil {
		return "not connected"
	}
	r := bufio.NewReader(nc)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		return "no answer"
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Sprint(res.StatusCode)
	}
	s := &socket{attacker: a, nc: nc, r: r}
	if token != "" {
		<-time.After(pause)
		if err := s.tryFrame(fin|opText, []byte(`{"action":"auth_token","token":"`+token+`"}`)); err != nil {
			return "closed"
		}
	}
	for {
		switch m := s.next(); {
		case m.closed != 0:
			return fmt.Sprint("closed ", m.closed)
		case m.Type == "Success":
			return ""
		case m.Type == "Error":
			return fmt.Sprint(m.Code, " ", m.Reason)
		}
	}
}

// TestNeighboursE2E runs each neighbour at its cost and at ten times that, and in full as fast as
// it can with up to 10,000 sockets. It counts how often others at its address are refused: a
// logged-in user whose tokens another process minted, a new login, a refresh, and a page that sends
// its token 300 ms after the handshake. Only clients without a token in their first bytes may be
// refused, if a neighbour connects as fast as it can.
func TestNeighboursE2E(t *testing.T) {
	tries := count(200)
	first := &attacker{T: t, server: start(t, settings{Refreshes: 1_000_000}), network: 28, next: new(atomic.Int32)}
	users := slices.DeleteFunc(usernames(), func(name string) bool { return !strings.HasPrefix(name, "user") })
	chains := make([]tokens, len(users))
	for i, name := range users {
		chains[i] = first.login(name)
	}
	levels := []struct {
		name  string
		times int
	}{{"at its cost", 1}, {"at ten times that", 10}, {"as fast as it can", 0}}
	if !full() {
		levels = levels[:2]
	}
	minted := make(chan string, len(neighbours())*len(levels)*3*tries)
	for i := range cap(minted) {
		c := &chains[i%len(chains)]
		r := first.refresh(c.refresh)
		if *c = tokensOf(r); r.status != 200 {
			t.Fatalf("refresh: %d %s", r.status, r.body)
		}
		minted <- c.access
	}
	first.stop(t)
	a := &attacker{T: t, server: start(t, settings{Folder: first.settings.Folder, Refreshes: 1_000_000}), network: 29, next: new(atomic.Int32)}
	for _, n := range neighbours() {
		for _, level := range levels {
			who := n
			workers := 8
			if who.rate *= level.times; level.times == 0 {
				who.rate, workers = 1_000_000, 64
				who.holds = min(who.holds, 1) * 10_000
			}
			t.Run(n.name+" "+level.name, func(t *testing.T) {
				from := a.from()
				stop, ready := make(chan struct{}), make(chan struct{})
				var sent atomic.Int64
				var running sync.WaitGroup
				running.Go(func() { who.run(a, from, workers, stop, &sent, ready) })
				<-ready
				began, before := time.Now(), sent.Load()
				others := []other{
					{"a request of a logged-in user", func(int) string {
						r, err := a.askFrom(from, http.MethodGet, "/auth/sessions", "", "Authorization", "Bearer "+<-minted)
						return refusedBy(r, err, 200)
					}},
					{"a socket of a logged-in user", func(int) string {
						return a.authenticateAfter(0, from, "", "Authorization", "Bearer "+<-minted)
					}},
					{"a new login and its token", func(i int) string {
						name := users[i%len(users)]
						body := fmt.Sprintf(`{"grant_type":"password","username":%q,"password":%q}`, name, passwordOf(name))
						r, err := a.askFrom(from, http.MethodPost, "/auth/token", body, "Content-Type", asJSON)
						if refused := refusedBy(r, err, 200); refused != "" {
							return "login: " + refused
						}
						r, err = a.askFrom(from, http.MethodGet, "/auth/sessions", "", "Authorization", "Bearer "+tokensOf(r).access)
						return refusedBy(r, err, 200)
					}},
					{"a refresh", func(i int) string {
						c := &chains[i%len(chains)]
						r, err := a.askFrom(from, http.MethodPost, "/auth/token", `{"grant_type":"refresh_token","refresh_token":"`+c.refresh+`"}`, "Content-Type", asJSON)
						if refused := refusedBy(r, err, 200); refused != "" {
							return refused
						}
						c.refresh = tokensOf(r).refresh
						return ""
					}},
					{"a page", func(int) string {
						<-time.After(100 * time.Millisecond) // pages of an address are less than its limit
						return a.authenticateAfter(300*time.Millisecond, from, <-minted)
					}},
				}
				got := make([]map[string]int, len(others))
				var all sync.WaitGroup
				for i, v := range others {
					got[i] = map[string]int{}
					all.Go(func() {
						for k := range tries {
							if refused := v.try(k); refused != "" {
								got[i][refused]++
							}
						}
					})
				}
				all.Wait()
				rate := float64(sent.Load()-before) / time.Since(began).Seconds()
				close(stop)
				running.Wait()
				for i, v := range others {
					refused := 0
					for _, k := range got[i] {
						refused += k
					}
					t.Logf("figure: %s, %s (%.0f a second): %s refused %d of %d times %v", n.name, level.name, rate, v.name, refused, tries, got[i])
					if refused > 0 && (level.times != 0 || !slices.Contains(n.costs, v.name)) {
						t.Errorf("%s was refused: %v", v.name, got[i])
					}
				}
			})
		}
	}
	if len(minted) != 0 && !t.Failed() {
		t.Errorf("%d tokens were not used", len(minted))
	}
}
