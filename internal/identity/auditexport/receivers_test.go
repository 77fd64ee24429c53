package auditexport

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker/httpusers"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/base/certificate"
	"github.com/ruedahq/rueda/internal/base/certificate/certtest"
)

const testSecret = "0123456789abcdef0123456789abcdef"

func testRows(from, to int64) (rows []audit.Row) {
	for seq := from; seq <= to; seq++ {
		rows = append(rows, testRow(seq, audit.Event{Kind: audit.Login, Actor: "client", User: fmt.Sprint("u", seq), Detail: "ñ"}))
	}
	return rows
}

// readFrames reads messages with their length in front until r ends.
func readFrames(t *testing.T, r io.Reader, to chan<- message) {
	in := bufio.NewReader(r)
	for {
		digits, err := in.ReadString(' ')
		if err != nil {
			return
		}
		n := 0
		if _, err := fmt.Sscanf(digits, "%d ", &n); err != nil || n == 0 || n > 8<<10 || digits[0] == '0' {
			t.Errorf("length %q", digits)
			return
		}
		text := make([]byte, n)
		if _, err := io.ReadFull(in, text); err != nil {
			return
		}
		to <- parse(failing{t}, string(text))
	}
}

// failing makes a fatal error of another goroutine than that of the test an ordinary one.
type failing struct{ t *testing.T }

func (f failing) Fatalf(format string, args ...any) { f.t.Errorf(format, args...) }

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestSyslogOverTCPAndTLS sends messages to a server that ends the connection in between, with and
// without TLS and a client certificate.
func TestSyslogOverTCPAndTLS(t *testing.T) {
	for _, network := range []string{"tcp", "tls"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			cfg := Syslog{Address: network + "://" + l.Addr().String()}
			if network == "tls" {
				files := certtest.Write(t, t.TempDir(), "syslog")
				pair, err := certificate.Load(files, nil)
				if err != nil {
					t.Fatal(err)
				}
				secure := pair.Config()
				client := certtest.Write(t, t.TempDir(), "gateway")
				authorities, err := certificate.ClientConfig("", "", client.Certificate)
				if err != nil {
					t.Fatal(err)
				}
				secure.ClientAuth, secure.ClientCAs, secure.NextProtos = tls.RequireAndVerifyClientCert, authorities.RootCAs, nil
				l = tls.NewListener(l, secure)
				cfg.Authorities, cfg.Certificate, cfg.Key = files.Certificate, client.Certificate, client.Key
			}
			defer l.Close()
			got, conns := make(chan message, 100), make(chan net.Conn, 10)
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					conns <- c
					go readFrames(t, c, got)
				}
			}()
			to, err := NewSyslog(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer to.Close()
			for part := range int64(2) {
				if err := to.Send(limited(t), testRows(1+3*part, 3+3*part)); err != nil {
					t.Fatal(err)
				}
				for i := range int64(3) {
					m := <-got
					if want := fmt.Sprint(1 + 3*part + i); m.params["seq"] != want || m.params["detail"] != "ñ" || m.priority != 86 {
						t.Errorf("%+v, want row %s", m, want)
					}
				}
				if err := to.Check(); err != nil {
					t.Error(err)
				}
				_ = (<-conns).Close() // of the server
				<-to.(*syslog).ended
				if to.Check() == nil || to.Send(limited(t), testRows(1, 1)) == nil {
					t.Error("the end of the connection was not noticed")
				}
				to.Close()
			}
		})
	}
}

// TestSyslogOverUDP sends each message in one datagram.
func TestSyslogOverUDP(t *testing.T) {
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	to, err := NewSyslog(Syslog{Address: "udp://" + l.LocalAddr().String(), Format: "json"})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if err := to.Send(limited(t), testRows(1, 20)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64<<10)
	for i := range 20 {
		n, _, err := l.ReadFrom(b)
		if err != nil {
			t.Fatal(err)
		}
		if m := parse(t, string(b[:n])); m.params["seq"] != fmt.Sprint(i+1) || !strings.HasPrefix(m.text, "{") {
			t.Errorf("%+v", m)
		}
	}
}

// TestSyslogBlocked sends to a server that reads nothing: the time limit ends it.
func TestSyslogBlocked(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	to, err := NewSyslog(Syslog{Address: "tcp://" + l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	rows := testRows(1, 500)
	for err == nil {
		err = to.Send(ctx, rows)
	}
	if ctx.Err() == nil {
		t.Errorf("ended before its limit: %v", err)
	}
}

// TestWebhook sends signed batches over TLS. A status that is no success, also a redirect, is an
// error.
func TestWebhook(t *testing.T) {
	type request struct {
		lines []string
		err   error
		path  string
	}
	got, status := make(chan request, 10), make(chan int, 10)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, err := httpusers.Verify([]byte(testSecret), r, body, time.Now())
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != ContentType {
			err = fmt.Errorf("%s of %s", r.Method, r.Header.Get("Content-Type"))
		}
		got <- request{strings.Split(strings.TrimSuffix(string(body), "\n"), "\n"), err, r.URL.Path}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(<-status)
	}))
	defer server.Close()
	authorities := t.TempDir() + "/ca.crt"
	writePEM(t, authorities, server.Certificate().Raw)
	to, err := NewWebhook(Webhook{URL: server.URL + "/audit", Secret: []byte(testSecret), Authorities: authorities})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	for _, tc := range []struct {
		status int
		good   bool
	}{{200, true}, {503, false}, {204, true}, {307, false}, {400, false}, {202, true}} {
		status <- tc.status
		err := to.Send(limited(t), testRows(5, 8))
		r := <-got
		if (err == nil) != tc.good || r.err != nil || len(r.lines) != 4 || r.path != "/audit" {
			t.Errorf("status %d: %v; request %+v", tc.status, err, r)
		}
		var row struct {
			Seq    int64
			Hash   string
			Detail string
		}
		if err := json.Unmarshal([]byte(r.lines[3]), &row); err != nil || row.Seq != 8 || len(row.Hash) != 64 || row.Detail != "ñ" {
			t.Errorf("%v: %s", err, r.lines[3])
		}
		if !tc.good {
			to.Close()
		}
	}
	if len(got) != 0 {
		t.Error("a redirect was followed")
	}
}

// TestReceiverSettings checks that settings which cannot work, or would send rows in the clear, are
// refused.
func TestReceiverSettings(t *testing.T) {
	secret := []byte(testSecret)
	for _, bad := range []Webhook{
		{}, {URL: "https://siem.example/"}, {URL: "http://192.0.2.1/", Secret: secret}, {URL: "ftp://siem.example/", Secret: secret},
		{URL: "https://u:p@siem.example/", Secret: secret}, {URL: "https://siem.example/?token=x", Secret: secret},
		{URL: "https://siem.example/", Secret: secret[:31]}, {URL: "https://siem.example/", Secret: secret, Authorities: "missing.crt"},
		{URL: "https://siem.example/", Certificate: "missing.crt", Key: "missing.key"},
	} {
		if _, err := NewWebhook(bad); err == nil {
			t.Errorf("%s was accepted", bad.URL)
		}
	}
	for _, bad := range []Syslog{
		{}, {Address: "siem.example:514"}, {Address: "https://siem.example"}, {Address: "udp://"}, {Address: "tcp://siem.example/x"},
		{Address: "tcp://siem.example", Authorities: "ca.crt"}, {Address: "tls://siem.example", Authorities: "missing.crt"},
	} {
		if _, err := NewSyslog(bad); err == nil {
			t.Errorf("%q was accepted", bad.Address)
		}
	}
	for address, want := range map[string]string{"udp://h": "h:514", "tcp://h": "h:601", "tls://[::1]": "[::1]:6514", "tls://h:1": "h:1"} {
		to, err := NewSyslog(Syslog{Address: address})
		if err != nil || to.(*syslog).address != want {
			t.Errorf("%s: %v, %v", address, to, err)
		}
	}
}

func writePEM(t *testing.T, name string, der []byte) {
	t.Helper()
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
