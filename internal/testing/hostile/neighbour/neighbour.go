package neighbour

import (
	"bufio"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Neighbour is a client without a login that does one thing again and again, from the address of
// others.
type Neighbour struct {
	Name  string
	First int      // at once
	Rate  int      // then a second
	Holds int      // connections that are kept open
	Costs []string // others that may be refused if it goes as fast as it can

	// send does it once. It may use nc again if that is not nil, and returns the connection to keep.
	send func(s *Site, nc net.Conn) (net.Conn, error)
}

// Neighbours returns the ways in which a client without a login could keep others out, at what they
// cost before tokens had a MAC and an address lost its own oldest connections.
func Neighbours() []Neighbour {
	return []Neighbour{
		{"silent sockets", 32, 3, 40, []string{"a page"}, write(upgrade + "\r\n")},
		{"idle connections", 1_000, 17, 1_100, []string{"a new login and its token", "a refresh"}, write("GET /livez HTTP/1.1\r\nHost: gateway.test\r\n\r\n")},
		{"invalid handshakes", 200, 20, 0, nil, ask(func() string {
			return strings.Replace(upgrade, "Version: 13", "Version: 7", 1) + "\r\n"
		})},
		{"invented refresh tokens", 205, 4, 0, nil, ask(func() string {
			return post("/auth/token", `{"grant_type":"refresh_token","refresh_token":"`+inventedRefresh()+`"}`)
		})},
		{"invented access tokens", 600, 200, 0, nil, ask(func() string {
			return "GET /auth/sessions HTTP/1.1\r\nHost: gateway.test\r\nAuthorization: Bearer eyJhbGciOiJFUzI1NiIsImtpZCI6IngiLCJ0eXAiOiJhdCtqd3QifQ.e30." +
				base64.RawURLEncoding.EncodeToString(randomBytes(64)) + "\r\n\r\n"
		})},
	}
}

const upgrade = "GET /stream HTTP/1.1\r\nHost: gateway.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"

func post(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: gateway.test\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32()) //nolint:gosec // not a secret
	}
	return b
}

// inventedRefresh returns a refresh token with a valid checksum that no gateway has issued.
func inventedRefresh() string {
	b := randomBytes(32)
	return "rt1_" + base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

// write returns a send that opens a connection, writes text and keeps it open.
func write(text string) func(*Site, net.Conn) (net.Conn, error) {
	return func(s *Site, _ net.Conn) (net.Conn, error) {
		nc, err := s.dialAgain()
		if err != nil {
			return nil, err
		}
		_, err = io.WriteString(nc, text)
		return nc, err
	}
}

// ask returns a send that writes a request and reads the answer.
func ask(text func() string) func(*Site, net.Conn) (net.Conn, error) {
	return func(s *Site, nc net.Conn) (net.Conn, error) {
		var err error
		if nc == nil {
			if nc, err = s.dialAgain(); err != nil {
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
		defer res.Body.Close()
		_, err = io.Copy(io.Discard, res.Body)
		if res.Close {
			err = io.EOF
		}
		return nc, err
	}
}

// dialAgain connects for a neighbour. Its ports are free at once when it closes.
func (s *Site) dialAgain() (net.Conn, error) {
	nc, err := s.Dial()
	if tcp, ok := nc.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	return nc, err
}

// run does what the neighbour does until stop is closed, on all workers together at its rate. sent
// counts how often. ready is closed after the first ones.
func (n *Neighbour) run(s *Site, workers int, stop <-chan struct{}, sent *atomic.Int64, ready chan<- struct{}) {
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
				if k > int64(n.First) {
					once.Do(func() { close(ready) })
				}
				wait := time.Until(began.Add(time.Duration(max(0, k-int64(n.First))) * time.Second / time.Duration(n.Rate)))
				select {
				case <-stop:
					if nc != nil {
						nc.Close()
					}
					return
				case <-time.After(max(0, wait)):
				}
				used, err := n.send(s, nc)
				nc = nil
				switch {
				case used == nil:
				case err != nil:
					used.Close()
				case n.Holds == 0:
					nc = used
				default:
					if held = append(held, used); len(held) > max(1, n.Holds/workers) {
						held[0].Close()
						held = held[1:]
					}
				}
			}
		})
	}
	all.Wait()
}
