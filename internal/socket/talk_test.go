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

	"github.com/ruedahq/rueda/internal/deflate"
	"github.com/ruedahq/rueda/internal/session/talk"
	"github.com/ruedahq/rueda/wire"
)

// TestTalk runs the protocol conversations through the whole of a connection, the
// handshake, the frames, the shards, over a pipe in a bubble, where time is exact.
// Clients that stop reading are left to the session's own tests and to TestTalkTCP: a
// pipe has no buffer that could fill.
func TestTalk(t *testing.T) {
	for _, script := range conversations(t) {
		if !script.Stalls() {
			t.Run(script.Name, func(t *testing.T) { talkInBubble(t, script, wire.JSON) })
		}
	}
}

// TestTalkFormats runs them in two other formats, in which what the client sends is compressed too. Left out
// of MessagePack are those to which a binary message is a fault.
func TestTalkFormats(t *testing.T) {
	for _, f := range []wire.Format{wire.Batch | wire.Deflate, wire.Msgpack | wire.Deflate} {
		for _, script := range conversations(t) {
			if script.Stalls() || f&wire.Msgpack != 0 && strings.HasPrefix(script.Name, "fault-") {
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

// TestTalkTCP runs them over real sockets: those that let little time pass, and all when
// the long counts run in full. Three kinds need a clock that stands still between steps: those
// of the rate limit and of a connection that is slowed down, which count in a bucket that fills by the
// clock, and those of conflation and of bars, which speak at whole seconds of the day.
func TestTalkTCP(t *testing.T) {
	longest := 3 * time.Second
	if os.Getenv("RUEDA_SOAK") != "" {
		longest = 2 * time.Minute
	}
	onEachWay(t, func(t *testing.T, way way) { talkOver(t, way, longest) })
}

func talkOver(t *testing.T, way way, longest time.Duration) {
	// They mostly wait, so all run at once, whatever the number of cores.
	var all sync.WaitGroup
	for _, script := range conversations(t) {
		if script.Stalls() || script.Duration() > longest ||
			strings.HasPrefix(script.Name, "rate-") || strings.HasSuffix(script.Name, "-conflated") || strings.Contains(script.Name, "bars") || script.Name == "sim-slow-down" {
			continue
		}
		all.Go(func() {
			t.Run(script.Name, func(t *testing.T) {
				// A message may come as late as a busy machine brings it.
				converse(t, script, func(s *Server) (net.Listener, func() (net.Conn, error)) {
					pl, l := listenOn(t, s, way)
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

// converse runs a conversation against a server that serve opens a way to.
func converse(t *testing.T, script *talk.Script, serve func(*Server) (net.Listener, func() (net.Conn, error)),
	host talk.Host) {
	world, err := script.World()
	if err != nil {
		t.Fatal(err)
	}
	if host.RealClock {
		// None of these stops reading, and the writer of a busy machine may well be late.
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
	host.Dial = func(o talk.Offer) (talk.Conn, error) {
		nc, err := dial()
		if err != nil {
			return nil, err
		}
		return greet(nc, o)
	}
	script.Run(t, world, host)
	cancel()
	h.Close()
	all.Wait()
	if n := world.Env.Registry.Len(); n != 0 {
		t.Errorf("%d sessions are left in the registry", n)
	}
}

// greet takes a connection past the handshake.
func greet(nc net.Conn, o talk.Offer) (talk.Conn, error) {
	c := &talker{client: client{nc: nc, r: newReader(nc)}, format: o.Format}
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

// talker is a client as a conversation sees it.
type talker struct {
	client
	format wire.Format
	queue  []string // messages of the last frame
}

// Send sends a message, compressed where that was agreed on.
func (c *talker) Send(text bool, msg []byte) error {
	opcode := byte(opBinary)
	if text {
		opcode = opText
	}
	f := frame(opcode, string(msg))
	if c.format&wire.Deflate != 0 {
		f = squeezed(opcode, string(new(deflate.Compressor).Append(nil, msg)))
	}
	_, err := c.nc.Write([]byte(f))
	return err
}

func (c *talker) Receive() (string, error) {
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
	// The peer's close frame is answered, which ends the handshake at once.
	_, _ = c.nc.Write([]byte(frame(opClose, payload)))
	return "", &talk.Closed{Code: binary.BigEndian.Uint16([]byte(payload)), Reason: payload[2:]}
}

func (c *talker) Close() error {
	err := c.nc.Close()
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return nil // it was reset, so TLS has nobody to say goodbye to
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
