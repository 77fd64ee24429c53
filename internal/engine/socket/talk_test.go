package socket

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/deflate"
	"github.com/ruedahq/rueda/internal/testing/talk"
	"github.com/ruedahq/rueda/wire"
)

// TestTalk runs the protocol conversations through handshake, frames and shards, over a pipe in a
// bubble with exact time. Clients that stop reading are covered by the session's tests and by
// TestTalkTCP, because a pipe has no buffer to fill.
func TestTalk(t *testing.T) {
	for _, script := range conversations(t) {
		if !script.Stalls() {
			t.Run(script.Name, func(t *testing.T) { talkInBubble(t, script, wire.JSON) })
		}
	}
}

// TestTalkFormatsLong runs each of them in two other formats, with compressed client messages, and
// with -short in one of the two. It leaves out the conversations in which a binary message is an
// error for MessagePack.
func TestTalkFormatsLong(t *testing.T) {
	for k, f := range []wire.Format{wire.Batch | wire.Deflate, wire.Msgpack | wire.Deflate} {
		for i, script := range conversations(t) {
			fault := strings.HasPrefix(script.Name, "fault-")
			if script.Stalls() || fault && f&wire.Msgpack != 0 || testing.Short() && !fault && i%2 != k {
				continue
			}
			t.Run(f.Subprotocol()+"/"+script.Name, func(t *testing.T) { talkInBubble(t, script, f) })
		}
	}
}

func talkInBubble(t *testing.T, script *talk.Script, f wire.Format) {
	synctest.Test(t, func(t *testing.T) {
		converse(t, script, func(*Server) (net.Listener, func() (net.Conn, error)) {
			l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
			return l, l.dial
		}, talk.Host{Settle: synctest.Wait, Tolerance: time.Millisecond, Format: f})
	})
}

// TestTalkTCP runs over real sockets the conversations that need little time, and all of them when
// the long counts run in full. Three kinds need a clock that stands still between steps: those of
// the rate limit and of slowed connections, whose buckets fill with time, and those of conflation
// and bars, which act at whole seconds.
func TestTalkTCP(t *testing.T) {
	longest := 3 * time.Second
	if os.Getenv("RUEDA_SOAK") != "" {
		longest = 2 * time.Minute
	}
	forEachTransport(t, func(t *testing.T, tr transport) { talkOver(t, tr, longest) })
}

func talkOver(t *testing.T, tr transport, longest time.Duration) {
	// They mostly wait, so many run at the same time. Handshakes of all at once would make messages
	// later than the tolerance, most of all with TLS and the race detector.
	var all sync.WaitGroup
	slots := make(chan struct{}, 24)
	for _, script := range conversations(t) {
		if script.Stalls() || script.Duration() > longest ||
			strings.HasPrefix(script.Name, "rate-") || strings.HasSuffix(script.Name, "-conflated") || strings.Contains(script.Name, "bars") || script.Name == "sim-slow-down" {
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			t.Run(script.Name, func(t *testing.T) {
				// Messages may be late on a busy machine.
				converse(t, script, func(s *Server) (net.Listener, func() (net.Conn, error)) {
					pl, l := listenOn(t, s, tr)
					return l, pl.tryDial
				}, talk.Host{Tolerance: time.Second, RealClock: true})
			})
		})
	}
	all.Wait()
}

func conversations(t *testing.T) []*talk.Script {
	t.Helper()
	scripts, err := talk.Load(os.DirFS("../session/testdata"))
	if err != nil {
		t.Fatal(err)
	}
	return scripts
}

// converse runs a conversation against a server; serve returns its listener and dialer.
func converse(t *testing.T, script *talk.Script, serve func(*Server) (net.Listener, func() (net.Conn, error)),
	host talk.Host) {
	world, err := script.World()
	if err != nil {
		t.Fatal(err)
	}
	if host.RealClock {
		// All clients read, but the writer of a busy machine may be late.
		world.Env.SlowAfter = time.Minute
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := New(Config{Env: world.Env, Hub: world.Hub, Shards: 2, MaxMessage: world.Env.MessageBytes})
	l, dial := serve(s)
	h := &http.Server{Handler: s, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0), ReadHeaderTimeout: 5 * time.Second}
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	all.Go(func() {
		if err := world.Hub.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	all.Go(func() {
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	compressor := new(sharedCompressor)
	host.Dial = func(o talk.Offer) (talk.Conn, error) {
		nc, err := dial()
		if err != nil {
			return nil, err
		}
		return greet(nc, o, compressor)
	}
	script.Run(t, world, host)
	cancel()
	h.Close()
	all.Wait()
	if err := world.Close(); err != nil {
		t.Error(err)
	}
	if n := world.Env.Registry.Len(); n != 0 {
		t.Errorf("%d sessions are left in the registry", n)
	}
}

// greet makes the handshake on a connection.
func greet(nc net.Conn, o talk.Offer, compressor *sharedCompressor) (talk.Conn, error) {
	c := &formatClient{client: client{nc: nc, r: newReader(nc)}, format: o.Format, compressor: compressor}
	head := goodHandshake
	if o.Bearer != "" {
		head += "Authorization: Bearer " + o.Bearer + "\r\n"
	}
	if o.Format&^wire.Deflate != wire.JSON {
		head += "Sec-WebSocket-Protocol: " + o.Format.Subprotocol() + "\r\n"
	}
	if o.Format&wire.Deflate != 0 {
		head += "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n"
	}
	if _, err := nc.Write([]byte(head + "\r\n")); err != nil {
		return nil, err
	}
	r, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return nil, err
	}
	if r.StatusCode != http.StatusSwitchingProtocols {
		return nil, errors.Join(&talk.Closed{Code: 1006, Reason: r.Status}, nc.Close())
	}
	return c, nil
}

// formatClient is a client of a conversation, with any format.
type formatClient struct {
	client
	format     wire.Format
	compressor *sharedCompressor
	queue      []string // unread messages of the last frame
}

// sharedCompressor compresses the messages of all clients of a test. A Compressor allocates almost
// a megabyte, which the race detector makes expensive.
type sharedCompressor struct {
	mu         sync.Mutex
	compressor deflate.Compressor
}

func (c *sharedCompressor) compress(msg []byte) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.compressor.Append(nil, msg))
}

// Send sends a message, compressed if that was negotiated.
func (c *formatClient) Send(text bool, msg []byte) error {
	opcode := byte(opBinary)
	if text {
		opcode = opText
	}
	f := frame(opcode, string(msg))
	if c.format&wire.Deflate != 0 {
		f = compressedFrame(opcode, c.compressor.compress(msg))
	}
	_, err := c.nc.Write([]byte(f))
	return err
}

func (c *formatClient) Receive() (string, error) {
	if len(c.queue) > 0 {
		text := c.queue[0]
		c.queue = c.queue[1:]
		return text, nil
	}
	first, payload, err := c.frame()
	switch {
	case err != nil:
		return "", &talk.Closed{Code: 1006}
	case first != 0x80|opClose:
		c.queue, err = talk.Unpack(c.format, first, []byte(payload))
		if err != nil {
			return "", &talk.Closed{Code: 1002, Reason: err.Error()}
		}
		return c.Receive()
	}
	// Answer the peer's close frame, which ends the handshake immediately.
	_, _ = c.nc.Write([]byte(frame(opClose, payload)))
	return "", &talk.Closed{Code: binary.BigEndian.Uint16([]byte(payload)), Reason: payload[2:]}
}

func (c *formatClient) Close() error {
	err := c.nc.Close()
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return nil // reset: TLS cannot send its close
	}
	return err
}

func (l *pipeListener) dial() (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
