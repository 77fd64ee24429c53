package upgrade_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
	"github.com/ruedahq/rueda/internal/ops/config"
	"github.com/ruedahq/rueda/tests/upgrade/fixture"
)

// The folder of the commit whose data the tests of this file and the others open.
const fd6a63bd = "0.2.0-dev-fd6a63bd"

// pipes is a listener of connections in memory, so that the clock of a synctest bubble goes on
// while a gateway waits for clients.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- fromLoopback{server}:
		return client, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fromLoopback adds the address of a client to a pipe.
type fromLoopback struct{ net.Conn }

func (fromLoopback) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 40000}
}

// until sleeps in a bubble until its clock shows a time.
func until(at time.Time) { time.Sleep(time.Until(at)) }

// settings reads the rueda.toml of a folder.
func settings(t *testing.T, folder string) *config.Settings {
	t.Helper()
	s, err := config.Read(filepath.Join(folder, "rueda.toml"), func(config.Log) (*slog.Logger, *slog.LevelVar) {
		return slog.New(slog.DiscardHandler), &slog.LevelVar{}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Users.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// serve runs a gateway on the data of a folder, without its feeds. The caller calls stop.
func serve(t *testing.T, folder string) (c *asker, stop func()) {
	t.Helper()
	s := settings(t, folder)
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig(s.Data))
	if err != nil {
		t.Fatal(err)
	}
	listener := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	ready := make(chan struct{}, 1)
	cfg := s.Gateway
	cfg.Listener, cfg.Feeds, cfg.Data, cfg.Accounts = listener, nil, data, data.Users
	cfg.OnReady = func(gateway.Bound) { ready <- struct{}{} }
	g, err := gateway.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(errors.Join(err, data.Close()))
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	transport := &http.Transport{DialContext: listener.dial}
	stop = func() {
		t.Helper()
		transport.CloseIdleConnections()
		// The server looks for its last connections by a clock that may stand.
		stacks := make([]byte, 8<<20)
		for round := 0; ; round++ {
			n := runtime.Stack(stacks, true) // cut if it fills stacks
			if n < len(stacks) && !bytes.Contains(stacks[:n], []byte("net/http.(*conn).serve")) {
				break
			}
			if round == 1_000_000 {
				t.Fatal("a connection of the gateway does not end")
			}
			runtime.Gosched()
		}
		cancel()
		if err := errors.Join(<-ended, data.Close()); err != nil {
			t.Error(err)
		}
	}
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(errors.Join(err, data.Close()))
	}
	return &asker{t: t, http: &http.Client{Transport: openapitest.Wrap(transport)}}, stop
}

// asker sends requests to a gateway in a bubble.
type asker struct {
	t    *testing.T
	http *http.Client
}

// open makes a request and returns the answer.
func (c *asker) open(x *fixture.Exchange, header http.Header) *http.Response {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), x.Method, "http://127.0.0.1:8080"+x.Path, strings.NewReader(x.Body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header = header
	req.Header.Set("User-Agent", "Go-http-client/1.1")
	if x.Body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if x.Token != "" {
		req.Header.Set("Authorization", "Bearer "+x.Token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	return res
}

// ask makes a request and returns the status and the body of the answer.
func (c *asker) ask(x *fixture.Exchange) (status int, body []byte) {
	c.t.Helper()
	res := c.open(x, http.Header{})
	body, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		c.t.Fatal(err)
	}
	return res.StatusCode, body
}

// copied copies folders of the commit over each other.
func copied(t *testing.T, folders ...string) string {
	t.Helper()
	to := t.TempDir()
	for _, f := range folders {
		copyPrivate(t, filepath.Join(fd6a63bd, f), to)
	}
	return to
}

// login returns an access token.
func (c *asker) login(user string) string {
	c.t.Helper()
	status, token := c.tryLogin(user)
	if status != http.StatusOK {
		c.t.Fatalf("login of %s: status %d", user, status)
	}
	return token
}

func (c *asker) tryLogin(user string) (status int, token string) {
	c.t.Helper()
	return c.tokens(`{"grant_type":"password","username":"` + user + `","password":"correct horse"}`)
}

// tokens requests tokens and returns the access token.
func (c *asker) tokens(body string) (status int, token string) {
	c.t.Helper()
	status, text := c.ask(&fixture.Exchange{Method: http.MethodPost, Path: "/auth/token", Body: body})
	var answer struct {
		Data struct {
			Token string `json:"access_token"`
		}
	}
	parse(c.t, text, &answer)
	return status, answer.Data.Token
}

// readFile returns the content of a file of the commit.
func readFile(t *testing.T, names ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{fd6a63bd}, names...)...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
