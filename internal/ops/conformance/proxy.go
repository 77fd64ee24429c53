package conformance

import (
	"bytes"
	"errors"
	"io"
	"net"
	"regexp"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/base/frame"
)

// proxy passes connections on to a gateway, and does to them what networks do.
type proxy struct {
	listener net.Listener
	done     sync.WaitGroup

	mu      sync.Mutex
	target  string // address of the gateway; "": nothing listens
	links   map[*link]bool
	streams int                 // WebSocket handshakes up to now
	tried   int                 // connections up to now, refused ones too
	edit    func([]byte) []byte // changes a frame of the gateway; nil: none
}

// link is a connection of the client with its connection to the gateway.
type link struct {
	p               *proxy
	client, gateway *net.TCPConn

	mu      sync.Mutex
	stream  bool          // it is a WebSocket
	held    chan struct{} // closed when bytes pass again; nil: they pass
	oneWay  bool          // only the bytes of the gateway are held
	silent  bool          // no byte passes any more, without a sign for the client
	cutting bool          // the next frame of the gateway is cut off
}

// smallBuffer is the size of the buffer of a connection that nobody reads, so that the gateway
// notices soon.
const smallBuffer = 4 << 10

// newProxy starts a proxy on a loopback address.
func newProxy() (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, links: map[*link]bool{}}
	p.done.Go(p.accept)
	return p, nil
}

// url returns the address that the client uses.
func (p *proxy) url() string { return "http://" + p.listener.Addr().String() }

// close ends all connections and waits for them.
func (p *proxy) close() {
	_ = p.listener.Close()
	p.reset()
	p.done.Wait()
}

// lead sets the address of the gateway. With "" connections are refused.
func (p *proxy) lead(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = address
}

// change sets the function that changes the frames of the gateway.
func (p *proxy) change(edit func([]byte) []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.edit = edit
}

// handshakes returns the number of WebSocket handshakes up to now.
func (p *proxy) handshakes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.streams
}

// attempts returns the number of connections up to now, refused ones too.
func (p *proxy) attempts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tried
}

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target := p.target
		p.tried++
		p.mu.Unlock()
		client := c.(*net.TCPConn)
		g, err := net.Dial("tcp", target)
		if target == "" || err != nil {
			_ = client.SetLinger(0)
			_ = client.Close()
			continue
		}
		l := &link{p: p, client: client, gateway: g.(*net.TCPConn)}
		p.mu.Lock()
		p.links[l] = true
		p.mu.Unlock()
		p.done.Go(l.run)
	}
}

// all returns the open connections.
func (p *proxy) all() (list []*link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		list = append(list, l)
	}
	return list
}

// reset resets all connections.
func (p *proxy) reset() {
	for _, l := range p.all() {
		_ = l.client.SetLinger(0)
		l.close()
	}
}

// cut ends the stream within the next frame of the gateway.
func (p *proxy) cut() {
	for _, l := range p.all() {
		l.mu.Lock()
		l.cutting = l.stream
		l.mu.Unlock()
	}
}

// ways are the ways in which breakStreams breaks a connection.
var ways = [...]string{"reset", "half-open", "stall", "cut"}

// breakStreams breaks all connections in one of the ways. It returns how many of them were streams.
func (p *proxy) breakStreams(way string) (streams int) {
	for _, l := range p.all() {
		if l.isStream() && !l.isSilent() {
			streams++
		}
	}
	switch way {
	case "reset":
		p.reset()
	case "cut":
		p.cut()
	default:
		p.silence(way == "half-open")
	}
	return streams
}

// silence lets no byte of the present connections pass any more, for good, without a sign for the
// client. With gone, they end at the gateway.
func (p *proxy) silence(gone bool) {
	for _, l := range p.all() {
		l.mu.Lock()
		l.silent = true
		l.mu.Unlock()
		if gone {
			_ = l.gateway.Close()
		}
	}
}

// hold lets no byte of the present connections pass any more, and keeps them open. The returned
// function lets bytes pass again.
func (p *proxy) hold() (release func()) { return p.stop(false) }

// holdDown holds only the bytes of the gateway, as a client does that does not read.
func (p *proxy) holdDown() (release func()) { return p.stop(true) }

func (p *proxy) stop(oneWay bool) (release func()) {
	held := make(chan struct{})
	for _, l := range p.all() {
		l.mu.Lock()
		l.held, l.oneWay = held, oneWay
		l.mu.Unlock()
		if oneWay {
			_ = l.gateway.SetReadBuffer(smallBuffer)
		}
	}
	return sync.OnceFunc(func() { close(held) })
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.gateway.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		select {
		case <-l.held:
		default:
			l.held = nil
		}
	}
}

// run passes bytes on until one side closes.
func (l *link) run() {
	var up sync.WaitGroup
	up.Go(func() {
		l.copyUp()
		_ = l.gateway.CloseWrite()
	})
	l.copyDown()
	if l.isSilent() {
		up.Wait() // until the client gives up
	}
	_ = l.client.CloseWrite()
	_ = l.client.SetReadDeadline(time.Now().Add(time.Second))
	up.Wait()
	l.close()
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	delete(l.p.links, l)
}

// errClosed means that the proxy has closed a connection.
var errClosed = errors.New("closed by the proxy")

// wait waits while the bytes of a direction are held.
func (l *link) wait(down bool) error {
	for {
		l.mu.Lock()
		held := l.held
		if l.oneWay && !down {
			held = nil
		}
		l.mu.Unlock()
		if held == nil {
			return nil
		}
		select {
		case <-held:
			return nil
		case <-time.After(10 * time.Millisecond): // the link may have been closed
			if _, err := l.client.Write(nil); errors.Is(err, net.ErrClosed) {
				return errClosed
			}
		}
	}
}

// copyUp passes the bytes of the client on.
func (l *link) copyUp() {
	b := make([]byte, 32<<10)
	for {
		n, err := l.client.Read(b)
		if l.isSilent() {
			_, _ = io.Copy(io.Discard, l.client)
			return
		}
		if n > 0 {
			if l.wait(false) != nil {
				return
			}
			if _, err := l.gateway.Write(withoutExtensions(b[:n])); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// extensions is the header with which a client offers compression.
var extensions = regexp.MustCompile(`(?i)\r\nsec-websocket-extensions:[^\r]*`)

// withoutExtensions removes the offer of compression from a handshake, so that the messages of the
// gateway can be changed.
func withoutExtensions(b []byte) []byte {
	if !bytes.HasPrefix(b, []byte("GET ")) {
		return b
	}
	return extensions.ReplaceAll(b, nil)
}

// upgraded begins the answer to a WebSocket handshake.
const upgraded = "HTTP/1.1 101 "

// copyDown passes the bytes of the gateway on, of a WebSocket frame by frame.
func (l *link) copyDown() {
	b := make([]byte, 32<<10)
	var pending []byte
	for {
		if l.wait(true) != nil {
			return
		}
		n, err := l.gateway.Read(b)
		if l.wait(true) != nil {
			return
		}
		if l.isSilent() {
			_, _ = io.Copy(io.Discard, l.gateway)
			return
		}
		pending = append(pending, b[:n]...)
		out, rest, ended := l.pass(pending)
		if _, err := l.client.Write(out); err != nil {
			return
		}
		if err != nil || ended {
			return
		}
		pending = append(pending[:0], rest...)
	}
}

// pass returns what the client receives of the bytes of the gateway, and what waits for more.
func (l *link) pass(b []byte) (out, rest []byte, ended bool) {
	if !l.isStream() {
		end := bytes.Index(b, []byte("\r\n\r\n"))
		switch {
		case !bytes.HasPrefix(b, []byte(upgraded)):
			return b, nil, false
		case end < 0:
			return nil, b, false // the rest of the header follows
		}
		l.began()
		out, b = append(out, b[:end+4]...), b[end+4:]
	}
	l.p.mu.Lock()
	edit := l.p.edit
	l.p.mu.Unlock()
	for {
		_, _, size := frame.Split(b)
		if size == 0 {
			return out, b, false
		}
		whole := b[:size]
		b = b[size:]
		l.mu.Lock()
		cutting := l.cutting
		l.mu.Unlock()
		if cutting {
			return append(out, whole[:size/2]...), nil, true
		}
		if edit != nil {
			whole = edit(whole)
		}
		out = append(out, whole...)
	}
}

func (l *link) isStream() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stream
}

func (l *link) isSilent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.silent
}

func (l *link) began() {
	l.mu.Lock()
	l.stream = true
	l.mu.Unlock()
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.p.streams++
}
