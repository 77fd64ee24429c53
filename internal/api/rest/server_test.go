package rest_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/identity/auth"
)

// pipeListener returns in-memory connections, whose deadlines use the clock of a bubble.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	over  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), over: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.over) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

func (l *pipeListener) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	return client
}

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// send writes text until all is written or the peer disconnects, and returns after how long it did.
func send(c net.Conn, text string, pause time.Duration) (cut time.Duration) {
	start := time.Now()
	for i := range len(text) {
		if _, err := c.Write([]byte{text[i]}); err != nil {
			return time.Since(start)
		}
		time.Sleep(pause) // of the bubble's clock
	}
	return 0
}

func inBubble(t *testing.T, f func(t *testing.T, g *gateway, l *pipeListener)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newPipeListener()
		g := newGateway(t, nil)
		stop := g.serveOn(t, l)
		defer stop()
		f(t, g, l)
	})
}

// TestSlowHeadersAreCut sends a header section one byte at a time.
func TestSlowHeadersAreCut(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *gateway, l *pipeListener) {
		c := l.dial()
		defer c.Close()
		if cut := send(c, "GET /livez HTTP/1.1\r\nHost: rueda.test\r\nX: "+strings.Repeat("a", 1000), 100*time.Millisecond); cut.Round(time.Second) != 5*time.Second {
			t.Errorf("cut after %v, want 5s", cut)
		}
	})
}

// TestStalledBodyIs408 sends half a body, with a length or in chunks, and then nothing.
func TestStalledBodyIs408(t *testing.T) {
	for _, framing := range []string{"Content-Length: 20\r\n\r\n{\"grant", "Transfer-Encoding: chunked\r\n\r\nff\r\n{\"grant"} {
		inBubble(t, func(t *testing.T, _ *gateway, l *pipeListener) {
			c := l.dial()
			defer c.Close()
			start := time.Now()
			if _, err := io.WriteString(c, "POST /auth/token HTTP/1.1\r\nHost: rueda.test\r\nContent-Type: application/json\r\n"+framing); err != nil {
				t.Fatal(err)
			}
			r, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(r.Body)
			if took := time.Since(start); took != 10*time.Second {
				t.Errorf("answered after %v, want 10s", took)
			}
			if r.StatusCode != http.StatusRequestTimeout || !bytes.Contains(body, []byte(`"reason":"timeout"`)) || !r.Close {
				t.Errorf("status %d, close %v: %s", r.StatusCode, r.Close, body)
			}
		})
	}
}

func TestIdleConnectionIsClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *gateway, l *pipeListener) {
		c := l.dial()
		defer c.Close()
		if _, err := io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: rueda.test\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		reader := bufio.NewReader(c)
		r, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := reader.ReadByte(); err == nil {
			t.Fatal("the server spoke")
		}
		if idle := time.Since(start); idle != 60*time.Second {
			t.Errorf("closed after %v, want 60s", idle)
		}
	})
}

// post sends a body to the handler itself and returns the answer.
func (g *gateway) post(path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	g.handler.ServeHTTP(w, r)
	return w
}

func (g *gateway) get(path, token string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	g.handler.ServeHTTP(w, r)
	return w
}

// login returns an access and a refresh token.
func (g *gateway) login(t testing.TB, user string) (access, refresh string) {
	t.Helper()
	w := g.post("/auth/token", `{"grant_type":"password","username":"`+user+`","password":"`+user+`"}`)
	if w.Code != http.StatusOK {
		t.Fatalf("login: %d %s", w.Code, w.Body)
	}
	return member(t, w, "access_token"), member(t, w, "refresh_token")
}

// TestRunEndsAfterItsRequests checks that a running request is answered when the server stops.
func TestRunEndsAfterItsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipeListener()
		answer := make(chan struct{})
		g := newGateway(t, func(c *rest.Config, _ *auth.Config) {
			c.Ready = func() error { <-answer; return nil }
		})
		stop := g.serveOn(t, l)
		c := l.dial()
		defer c.Close()
		if _, err := io.WriteString(c, "GET /readyz HTTP/1.1\r\nHost: rueda.test\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stopped := make(chan struct{})
		go func() { stop(); close(stopped) }()
		synctest.Wait()
		close(answer)
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != http.StatusOK {
			t.Errorf("status %d, %v", r.StatusCode, err)
		}
		<-stopped
	})
}

func TestRunReturnsServeError(t *testing.T) {
	l := newPipeListener()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	err := rest.NewServer(rest.ServerConfig{Handler: http.NotFoundHandler()}).Run(t.Context(), l)
	if !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// TestHijackGivesTheConnection checks that a hijacker gets the connection itself and the bytes that
// were read ahead.
func TestHijackGivesTheConnection(t *testing.T) {
	got := make(chan string, 2)
	g := newGateway(t, func(c *rest.Config, _ *auth.Config) {
		c.Stream = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			hijacker, ok := w.(http.Hijacker)
			if !ok {
				t.Error("cannot be hijacked")
				return
			}
			conn, rw, err := hijacker.Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			if _, ok := conn.(*net.TCPConn); !ok {
				t.Errorf("got a %T", conn)
			}
			ahead := make([]byte, rw.Reader.Buffered())
			if _, err := io.ReadFull(rw, ahead); err != nil {
				t.Error(err)
			}
			got <- string(ahead)
		})
	})
	c, err := net.Dial("tcp", g.serve(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /stream HTTP/1.1\r\nHost: rueda.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nframe"); err != nil {
		t.Fatal(err)
	}
	if ahead := <-got; ahead != "frame" {
		t.Errorf("read ahead %q", ahead)
	}
}

// TestNothingFollowsChunks checks that a connection with an unread chunked body carries no other
// request, whatever the handler does.
func TestNothingFollowsChunks(t *testing.T) {
	g := newGateway(t, func(c *rest.Config, _ *auth.Config) {
		c.Stream = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Del("Connection")
			w.WriteHeader(http.StatusTeapot)
		})
	})
	c, err := net.Dial("tcp", g.serve(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /stream HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /livez HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(c)
	for _, want := range []int{http.StatusTeapot, http.StatusBadRequest} {
		r, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != want {
			t.Errorf("status %d, want %d; %v", r.StatusCode, want, err)
		}
	}
}

func TestTLS(t *testing.T) {
	lender := httptest.NewTLSServer(nil) // of its certificate
	defer lender.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := newGateway(t, nil)
	t.Cleanup(g.serveOn(t, tls.NewListener(l, &tls.Config{Certificates: lender.TLS.Certificates, NextProtos: []string{"http/1.1"}})))
	client := lender.Client()
	defer client.CloseIdleConnections()
	r, err := client.Get("https://" + l.Addr().String() + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if body, err := io.ReadAll(r.Body); err != nil || r.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(`"live"`)) {
		t.Errorf("status %d, %v: %s", r.StatusCode, err, body)
	}
}

// TestUpgradePanics checks that a panic during the upgrade answers 500, or closes the connection if
// an answer has begun, and that its value is not logged.
func TestUpgradePanics(t *testing.T) {
	for _, begun := range []bool{false, true} {
		g := newGateway(t, func(c *rest.Config, _ *auth.Config) {
			c.Stream = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if begun {
					if _, _, err := http.NewResponseController(w).Hijack(); err != nil {
						t.Error(err)
					}
				}
				panic("canary-panic")
			})
		})
		c, err := net.Dial("tcp", g.serve(t))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 4096)
		if begun {
			_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // the stream's owner has the connection
		}
		n, _ := c.Read(answer)
		if has := bytes.Contains(answer[:n], []byte(`"reason":"internal"`)); has == begun || begun && n > 0 {
			t.Errorf("begun %v: answered %q", begun, answer[:n])
		}
		if log := g.log.String(); !strings.Contains(log, "request handler panicked") || strings.Contains(log, "canary") {
			t.Errorf("logged: %s", log)
		}
		if n := g.plain.Panics(); n != 1 {
			t.Errorf("%d panics", n)
		}
	}
}
