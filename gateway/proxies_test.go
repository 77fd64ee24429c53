package gateway_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/gateway"
)

// forwarding has headers of clients behind a proxy on this machine, and the client address that
// each yields. The peer is 127.0.0.1 in all of them.
var forwarding = []struct{ name, headers, want string }{
	{"none", "", "127.0.0.1"},
	{"the proxy's", "X-Forwarded-For: 198.51.100.1\r\n", "198.51.100.1"},
	{"the client's before it", "X-Forwarded-For: 203.0.113.9, 198.51.100.2\r\n", "198.51.100.2"},
	{"in lines", "X-Forwarded-For: 203.0.113.9\r\nx-forwarded-for: 198.51.100.3\r\n", "198.51.100.3"},
	{"more lines than are usual", strings.Repeat("X-Forwarded-For: 203.0.113.9\r\n", 6) + "X-Forwarded-For: 198.51.100.4\r\n", "198.51.100.4"},
	{"two proxies", "X-Forwarded-For: 198.51.100.5, 127.0.0.7\r\n", "198.51.100.5"},
	{"garbage", "X-Forwarded-For: 198.51.100.6, unknown\r\n", "0.0.0.0"},
	{"garbage beyond a proxy", "X-Forwarded-For: x, 127.0.0.8\r\n", "0.0.0.0"},
	{"Forwarded", "Forwarded: for=203.0.113.9, for=\"198.51.100.8:4711\";proto=https\r\n", "198.51.100.8"},
	{"Forwarded with IPv6", "Forwarded: for=\"[2001:db8:cafe::17]:4711\"\r\n", "2001:db8:cafe::17"},
	{"two that differ", "Forwarded: for=203.0.113.9\r\nX-Forwarded-For: 198.51.100.9\r\n", "0.0.0.0"},
}

func proxies(t *testing.T, list ...string) (out []netip.Prefix) {
	t.Helper()
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// raw sends a request as it is on its own connection and returns the answer.
func raw(t *testing.T, address, request string) (*http.Response, string) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	if r.StatusCode == http.StatusSwitchingProtocols {
		return r, ""
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r, string(body)
}

const loginBody = `{"grant_type":"password","username":"demo","password":"demo-password"}`

// addressOfLogin logs in with headers and returns the stored address of the login.
func addressOfLogin(t *testing.T, address, headers string) string {
	t.Helper()
	_, body := raw(t, address, fmt.Sprintf("POST /auth/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n%s\r\n%s",
		len(loginBody), headers, loginBody))
	var login struct {
		Data struct {
			Access string `json:"access_token"`
		}
	}
	if err := json.Unmarshal([]byte(body), &login); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	_, body = raw(t, address, "GET /auth/sessions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "+login.Data.Access+"\r\n\r\n")
	var list struct {
		Data struct {
			Sessions []struct {
				Address string
				Current bool
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for _, s := range list.Data.Sessions {
		if s.Current {
			return s.Address
		}
	}
	t.Fatalf("no current session: %s", body)
	return ""
}

// openSocket sends a handshake on a connection that stays open until the test ends.
func openSocket(t *testing.T, address, request string) *bufio.Reader {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	r, err := http.ReadResponse(in, nil)
	if err != nil || r.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%q: %+v, %v", request, r, err)
	}
	return in
}

// TestThreat28OnREST checks the addresses that are stored with logins.
func TestThreat28OnREST(t *testing.T) {
	t.Parallel()
	_, behind := run(t, gateway.Config{Listen: "127.0.0.1:0", Proxies: proxies(t, "127.0.0.0/8")})
	_, alone := run(t, gateway.Config{Listen: "127.0.0.1:0", Proxies: proxies(t, "10.0.0.0/8")})
	for _, tt := range forwarding {
		if got := addressOfLogin(t, behind.Address, tt.headers); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		if got := addressOfLogin(t, alone.Address, tt.headers); got != "127.0.0.1" {
			t.Errorf("%s, from somebody who is no proxy: %s", tt.name, got)
		}
	}
}

// TestThreat28OnTheSocket checks which address a socket is counted for, for handshakes that the
// event loop reads and for those of net/http. An address may have few sockets without a login:
// one more closes the oldest of the address.
func TestThreat28OnTheSocket(t *testing.T) {
	t.Parallel()
	for way, target := range map[string]string{"event loop": "/stream", "net/http": "/stream?v=%31"} {
		t.Run(way, func(t *testing.T) {
			const few = 3
			limits := gateway.Limits{UnauthenticatedPerAddress: few}
			_, b := run(t, gateway.Config{Listen: "127.0.0.1:0", Proxies: proxies(t, "127.0.0.0/8"), Limits: limits})
			open := map[string][]*bufio.Reader{}
			for _, tt := range forwarding {
				handshake := "GET " + target + " HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
					"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n" + tt.headers + "\r\n"
				for len(open[tt.want]) < few+1 {
					open[tt.want] = append(open[tt.want], openSocket(t, b.Address, handshake))
				}
				oldest := open[tt.want][0]
				open[tt.want] = open[tt.want][1:]
				if text, err := io.ReadAll(oldest); err != nil || !bytes.Contains(text, []byte(`"overloaded"`)) {
					t.Errorf("%s: not taken for %s: its oldest socket got %q, %v", tt.name, tt.want, text, err)
				}
			}
		})
	}
}
