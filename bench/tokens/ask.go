package tokens

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Asking is the argument of the request "ask".
type Asking struct {
	Address  string
	Clients  int // connections, each with one request in flight
	Families int // logins that they share; a family has a limit of refreshes
	Seconds  float64
	Warmup   float64
	Logins   bool // logins with passwords instead of refreshes
}

// Asked is the answer to "ask".
type Asked struct {
	Answers uint64 // within the time
	Seconds float64
}

// ask runs the clients that a describes, and returns how many answers they got in the measured
// time.
func ask(a Asking) (*Asked, error) {
	clients := make([]*client, a.Clients)
	var all sync.WaitGroup
	errs := make([]error, a.Clients)
	for i := range clients {
		all.Go(func() { clients[i], errs[i] = newClient(a, i) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var stop atomic.Bool
	var count atomic.Uint64
	for i, c := range clients {
		all.Go(func() {
			for n := 0; !stop.Load() && errs[i] == nil; n++ {
				errs[i] = c.once(n)
				count.Add(1)
			}
		})
	}
	time.Sleep(time.Duration(a.Warmup * float64(time.Second)))
	begin, before := time.Now(), count.Load()
	time.Sleep(time.Duration(a.Seconds * float64(time.Second)))
	out := &Asked{Answers: count.Load() - before, Seconds: time.Since(begin).Seconds()}
	stop.Store(true)
	all.Wait()
	for _, c := range clients {
		errs = append(errs, c.conn.Close())
	}
	return out, errors.Join(errs...)
}

// client holds a connection, and the refresh tokens of the logins that it made on it.
type client struct {
	conn   net.Conn
	in     *bufio.Reader
	name   string
	logins bool
	tokens []string
	out    []byte
	body   []byte
}

func newClient(a Asking, i int) (*client, error) {
	// Each client has its own address, as in reality.
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(i/200), byte(i%200+1))}}
	conn, err := d.Dial("tcp", a.Address)
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn, in: bufio.NewReader(conn), logins: a.Logins, name: fmt.Sprintf("u%d", i%passwordUsers)}
	for !a.Logins && len(c.tokens) < max(1, a.Families/a.Clients) {
		token, err := c.login()
		if err != nil {
			return nil, err
		}
		c.tokens = append(c.tokens, token)
	}
	return c, nil
}

func (c *client) login() (string, error) {
	return c.ask(`{"grant_type":"password","username":"` + c.name + `","password":"` + c.name + `"}`)
}

// once makes a request and reads its answer.
func (c *client) once(n int) error {
	if c.logins {
		_, err := c.login()
		return err
	}
	t := &c.tokens[n%len(c.tokens)]
	next, err := c.ask(`{"grant_type":"refresh_token","refresh_token":"` + *t + `"}`)
	*t = next
	return err
}

// ask posts a body and returns the refresh token of the answer.
func (c *client) ask(body string) (string, error) {
	c.out = append(c.out[:0], "POST /auth/token HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nContent-Length: "...)
	c.out = strconv.AppendInt(c.out, int64(len(body)), 10)
	c.out = append(append(c.out, "\r\n\r\n"...), body...)
	if _, err := c.conn.Write(c.out); err != nil {
		return "", err
	}
	if err := c.answer(); err != nil {
		return "", err
	}
	const name = `"refresh_token":"`
	_, rest, ok := bytes.Cut(c.body, []byte(name))
	token, _, _ := bytes.Cut(rest, []byte(`"`))
	if !ok {
		return "", fmt.Errorf("no token in the answer: %.200s", c.body)
	}
	return string(token), nil
}

// answer reads a response, of which it checks only the length.
func (c *client) answer() error {
	length := -1
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		if name, value, ok := bytes.Cut(line, []byte(":")); ok && bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return errors.New("an answer without a length")
	}
	if cap(c.body) < length {
		c.body = make([]byte, length)
	}
	c.body = c.body[:length]
	for n := 0; n < length; {
		k, err := c.in.Read(c.body[n:])
		if err != nil {
			return err
		}
		n += k
	}
	return nil
}
