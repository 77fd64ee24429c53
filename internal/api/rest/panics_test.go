package rest_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/socket"
	"github.com/ruedahq/rueda/internal/identity/auth"
)

// fragile is a connection that panics in the nth read or write.
type fragile struct {
	net.Conn
	read, write int // counted down to the panic; 0: none
}

func (c *fragile) Read(b []byte) (int, error) {
	if c.read--; c.read == 0 {
		panic("canary-panic")
	}
	return c.Conn.Read(b)
}

func (c *fragile) Write(b []byte) (int, error) {
	if c.write--; c.write == 0 {
		panic("canary-panic")
	}
	return c.Conn.Write(b)
}

// TestConnectionPanics has reads and writes of a connection panic, also on a goroutine of net/http.
// The connection ends, and the next one is served.
func TestConnectionPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil)
		s := rest.NewServer(rest.ServerConfig{Handler: g.handler, Logger: g.logger()})
		l := newPipeListener()
		done := make(chan error)
		ctx, end := context.WithCancel(t.Context())
		go func() { done <- s.Run(ctx, l) }()
		const request = "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"
		ask := func(read, write int) string {
			client, server := net.Pipe()
			l.conns <- &fragile{server, read, write}
			_ = client.SetDeadline(time.Now().Add(time.Minute))
			go func() { _, _ = io.WriteString(client, request) }()
			r, err := http.ReadResponse(bufio.NewReader(client), nil)
			defer client.Close()
			if err != nil {
				return err.Error()
			}
			return r.Status
		}
		for n, c := range []fragile{{read: 1}, {read: 2}, {write: 1}} { // the second read is in the background
			_ = ask(c.read, c.write)
			synctest.Wait()
			if got := s.Panics(); got != uint64(n+1) {
				t.Errorf("%d panics after %d", got, n+1)
			}
			if status := ask(0, 0); status != "200 OK" {
				t.Errorf("after panic %d: %s", n, status)
			}
		}
		if log := g.log.String(); strings.Count(log, "connection panicked") != 3 || strings.Contains(log, "canary") {
			t.Errorf("logged: %s", log)
		}
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestPanicsOfRequests has requests panic before and during their answers: a page, an export and an
// event stream. Each panic is counted, and the next request is served.
func TestPanicsOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := true
		a := newArchive(t, journal.Config{Sync: time.Millisecond}, func(c *rest.Config, _ *auth.Config) {
			c.Used = func(string, string, string, int) {
				if fault {
					panic("canary-panic")
				}
			}
			c.Connect = func(netip.Addr) (*socket.LocalConn, error) { panic("canary-panic") }
		})
		a.trades(ggal, 3)
		a.keep(ggal, journal.Row{Kind: journal.Trade, Time: opening() + 24*3600e9, Price: 1, Size: 1})
		a.run(func() bool { return a.journal.Days()[0].Closed })
		const export = "/market/export?type=trades&date=2026-11-20&market=BYMA"
		want := uint64(0)
		for _, path := range []string{historyPath("trades"), export, "/market/stream?trades=GGAL%7CBYMA%7C24hs"} {
			w := cutShort(func() *httptest.ResponseRecorder { return a.ask(path) })
			if want++; w != nil && w.Code != http.StatusInternalServerError {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
			if n := a.plain.Panics(); n != want {
				t.Errorf("%s: %d panics, want %d", path, n, want)
			}
		}
		fault = false
		for _, path := range []string{historyPath("trades"), export} {
			if w := a.ask(path); w.Code != http.StatusOK {
				t.Errorf("%s afterwards: %d", path, w.Code)
			}
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Header.Set("Authorization", "Bearer "+a.access)
			cutShort(func() *httptest.ResponseRecorder {
				a.handler.ServeHTTP(&fragileAnswer{ResponseRecorder: httptest.NewRecorder()}, r)
				return nil
			})
			if want++; a.plain.Panics() != want {
				t.Errorf("%s amid its answer: %d panics, want %d", path, a.plain.Panics(), want)
			}
		}
		if strings.Contains(a.log.String(), "canary") {
			t.Error("the log has the value of a panic")
		}
	})
}

// fragileAnswer panics when a body is written to it.
type fragileAnswer struct{ *httptest.ResponseRecorder }

func (*fragileAnswer) Write([]byte) (int, error) { panic("canary-panic") }

// cutShort returns what f does, or nil where the answer was cut off.
func cutShort(f func() *httptest.ResponseRecorder) (w *httptest.ResponseRecorder) {
	defer func() {
		if v := recover(); v != nil && v != http.ErrAbortHandler {
			panic(v)
		}
	}()
	return f()
}
