package socket

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/deflate"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/wire"
)

func TestConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, start(t, nil))
		c.auth("ana")
		c.echo("1")
		for _, piece := range bytewise([]byte(frame(opText, `{"action":"ping","id":2}`))) {
			c.write(string(piece))
		}
		c.want(`"action":"pong"`)
		c.write(part(opText, `{"action":`) + frame(opPing, "mid") + frame(opContinuation, `"ping"}`))
		if opcode, payload, err := c.next(); opcode != opPong || payload != "mid" || err != nil {
			t.Errorf("got opcode %d %q, %v, want the pong", opcode, payload, err)
		}
		c.want(`"action":"pong"`) // its message was complete only after the ping
	})
}

// advance advances the time in the bubble and waits until all goroutines are idle.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestCloseHandshake checks the closing handshake from both sides.
func TestCloseHandshake(t *testing.T) {
	t.Run("by the client", func(t *testing.T) {
		for _, code := range []uint16{1000, 1001, 3000, 4999, codeNoStatus} {
			synctest.Test(t, func(t *testing.T) {
				s := start(t, nil)
				c := dial(t, s)
				c.auth("ana")
				c.checks.Leave(code)
				if code == codeNoStatus {
					c.write(frame(opClose, ""))
				} else {
					c.write(closing(code, "done"))
				}
				c.wantClose(code, "")
				c.wantEnd()
				if open := s.Stats().Open; open != 0 {
					t.Errorf("%d connections open", open)
				}
			})
		}
	})
	t.Run("by the server, answered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, nil)
			c := dial(t, s)
			begin := time.Now()
			c.want(`"code":408,"reason":"auth_timeout"`)
			c.wantClose(4408, "auth_timeout")
			if took := time.Since(begin); took != 10*time.Second {
				t.Errorf("closed after %v", took)
			}
			c.send(`{"action":"ping"}`) // sent before the close frame arrives: ignored
			c.write(closing(4408, ""))
			c.wantEnd()
			if took := time.Since(begin); took != 10*time.Second {
				t.Errorf("ended after %v", took)
			}
		})
	})
	t.Run("by the server, not answered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := dial(t, start(t, nil))
			begin := time.Now()
			c.want(`"reason":"auth_timeout"`)
			c.wantClose(4408, "auth_timeout")
			c.wantEnd()
			if took := time.Since(begin); took != 12*time.Second {
				t.Errorf("ended after %v", took)
			}
		})
	})
	t.Run("by the server, nothing taken", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, nil)
			dial(t, s)
			advance(12*time.Second - 1)
			if open := s.Stats().Open; open != 1 {
				t.Errorf("%d connections open before the end", open)
			}
			advance(1)
			if open := s.Stats().Open; open != 0 {
				t.Errorf("%d connections open after the end", open)
			}
		})
	})
}

// TestViolations checks that framing errors close with the codes of RFC 6455 and without an Error.
func TestViolations(t *testing.T) {
	cases := []struct {
		name string
		in   string
		code uint16
	}{
		{"unmasked", "\x81\x02{}", 1002},
		{"reserved opcode", frame(3, ""), 1002},
		{"fragmented ping", part(opPing, ""), 1002},
		{"long ping", frame(opPing, strings.Repeat("p", 126)), 1002},
		{"continuation first", frame(opContinuation, ""), 1002},
		{"close of one byte", frame(opClose, "\x03"), 1002},
		{"close code 1005", closing(1005, ""), 1002},
		{"text not UTF-8", frame(opText, "\xff"), 1007},
		{"reason not UTF-8", closing(1000, "\xff"), 1007},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := start(t, nil)
				other := dial(t, s)
				other.auth("other")
				bad := dial(t, s)
				bad.auth("ana")
				bad.write(c.in + frame(opText, "whatever follows"))
				opcode, payload, err := bad.next()
				if err != nil || opcode != opClose || len(payload) < 2 || payload[:2] != string([]byte{byte(c.code >> 8), byte(c.code)}) {
					t.Fatalf("got opcode %d %q, %v, want close %d", opcode, payload, err, c.code)
				}
				bad.nc.Close()
				synctest.Wait()
				if open := s.Stats().Open; open != 1 {
					t.Errorf("%d connections open", open)
				}
				other.echo("still here")
			})
		})
	}
}

func TestTooBig(t *testing.T) {
	for _, in := range []string{
		frame(opText, strings.Repeat("x", 64<<10+1)),
		rawFrame(0x81, 8, 1<<63-1, "never all of it"),
		part(opText, "a") + strings.Repeat(part(opContinuation, ""), 1024),
	} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, nil)
			c := dial(t, s)
			c.auth("ana")
			go c.nc.Write([]byte(in))
			c.want(`"code":413,"reason":"message_too_big"`)
			c.wantClose(4413, "message_too_big")
			c.wantEnd()
		})
	}
}

// TestTooBigBeforeAuthentication closes a connection whose first message is long, and accepts a
// long message in the same segment as the token.
func TestTooBigBeforeAuthentication(t *testing.T) {
	long := frame(opText, `{"action":"ping","id":"1","pad":"`+strings.Repeat("x", maxEarlyMessage)+`"}`)
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		unauthenticated := dial(t, s)
		unauthenticated.write(long)
		unauthenticated.want(`"code":413,"reason":"message_too_big"`)
		unauthenticated.wantClose(4413, "message_too_big")
		c := dial(t, s)
		c.write(frame(opText, `{"action":"auth_token","token":"ana"}`) + long)
		c.want(`"Success"`)
		c.want(`"action":"pong"`)
	})
	synctest.Test(t, func(t *testing.T) { // of a token that is known, and needs no check
		s := start(t, func(c *Config) {
			c.Env.Known = func(token string) (*session.Identity, *wire.Fault, bool) {
				id, fault := verify(t.Context(), token)
				return id, fault, true
			}
		})
		c := dial(t, s)
		c.write(frame(opText, `{"action":"auth_token","token":"ana"}`) + long)
		c.want(`"Success"`)
		c.want(`"action":"pong"`)
	})
}

// TestCompressedBeforeAuthentication closes a connection whose first message is compressed and has
// more than 4 KiB, which may take a millisecond to inflate, and reads others slowly.
func TestCompressedBeforeAuthentication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		long := dialDeflate(t, s, true)
		long.write(compressedFrame(opText, emptyBlocks(maxEarlyDeflated+100)))
		long.want(`"code":413,"reason":"message_too_big"`)
		long.wantClose(4413, "message_too_big")
		c := dialDeflate(t, s, true)
		c.write(compressedFrame(opText, emptyBlocks(4000)))
		if total, _ := s.Counters(); total.Pauses != 0 {
			t.Fatalf("%d pauses after a message", total.Pauses)
		}
		c.write(compressedFrame(opText, emptyBlocks(4000)))
		synctest.Wait()
		if total, _ := s.Counters(); total.Pauses != 1 {
			t.Fatalf("%d pauses after two messages", total.Pauses)
		}
		time.Sleep(time.Second)
		c.write(compressedFrame(opText, string(new(deflate.Compressor).Append(nil, []byte(`{"action":"auth_token","token":"ana"}`)))))
		c.want(`"Success"`)
	})
}

func TestBinary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, start(t, nil))
		c.auth("ana")
		c.write(frame(opBinary, "{}"))
		c.want(`"code":400,"reason":"bad_message"`)
		c.echo("open")
	})
}

// TestTokenCheck checks that input after an auth_token waits for its answer, in order, and that
// other connections do not wait.
func TestTokenCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		slow, other := dial(t, s), dial(t, s)
		begin := time.Now()
		go slow.write(frame(opText, `{"action":"auth_token","token":"slow"}`) + frame(opText, `{"action":"ping","id":1}`) +
			frame(opText, `{"action":"ping","id":2}`))
		synctest.Wait()
		other.auth("other")
		if took := time.Since(begin); took != 0 {
			t.Errorf("another connection waited %v", took)
		}
		slow.want(`"type":"Success"`)
		slow.want(`"id":1`)
		slow.want(`"id":2`)
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("answered after %v", took)
		}
	})
}

func TestTokenCheckFails(t *testing.T) {
	cases := []struct {
		token, reason string
		code          int
		after         time.Duration
	}{
		{"bad", "invalid_token", 401, 0},
		{"expired", "token_expired", 401, 0},
		{"down", "overloaded", 503, 0},
		{"panic", "internal", 500, 0},
		{"stuck", "overloaded", 503, 5 * time.Second},
	}
	for _, c := range cases {
		t.Run(c.token, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log safeBuffer
				s := start(t, func(cfg *Config) { cfg.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
				other := dial(t, s)
				other.auth("other")
				begin := time.Now()
				bad := dial(t, s)
				bad.send(`{"action":"auth_token","token":"` + c.token + `"}`)
				bad.want(fmt.Sprintf(`"type":"Error","code":%d,"reason":"%s"`, c.code, c.reason))
				bad.wantClose(uint16(4000+c.code), c.reason)
				if took := time.Since(begin); took != c.after {
					t.Errorf("answered after %v", took)
				}
				other.echo("still here")
				if strings.Contains(log.String(), "secret") {
					t.Errorf("the log contains the value of a panic: %s", &log)
				}
			})
		})
	}
}

// TestVanishedDuringCheck checks that nothing is left of a client that closes during its token
// check.
func TestVanishedDuringCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		c := dial(t, s)
		c.send(`{"action":"auth_token","token":"slow"}`)
		c.nc.Close()
		advance(3 * time.Second)
		if got := s.Stats(); got.Open != 0 || got.Unauthenticated != 0 {
			t.Errorf("left: %+v", got)
		}
	})
}

// TestVerifiers checks the limit of concurrent token checks.
func TestVerifiers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, func(cfg *Config) { cfg.Verifiers = 2 })
		begin := time.Now()
		var clients []*client
		for range 5 {
			c := dial(t, s)
			c.send(`{"action":"auth_token","token":"slow"}`)
			synctest.Wait() // fixes the order of the checks
			clients = append(clients, c)
		}
		for i, c := range clients {
			c.want(`"type":"Success"`)
			if took, want := time.Since(begin), time.Duration(1+i/2)*3*time.Second; took != want {
				t.Errorf("check %d answered after %v, want %v", i, took, want)
			}
		}
	})
}

// TestVerifiersSkipClosed checks that the checks of closed connections delay nobody.
func TestVerifiersSkipClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, func(cfg *Config) { cfg.Verifiers = 1 })
		for range 5 {
			c := dial(t, s)
			c.send(`{"action":"auth_token","token":"slow"}`)
			synctest.Wait()
			c.nc.Close()
		}
		begin := time.Now()
		dial(t, s).auth("ana")
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("answered after %v", took)
		}
	})
}

// TestSessionPanics checks that a panic in one session ends only that connection.
func TestSessionPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log safeBuffer
		s := start(t, func(cfg *Config) {
			cfg.Shards = 1
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		})
		other := dial(t, s)
		other.auth("other")
		target := netip.MustParseAddr("192.0.2.66")
		c, err := tryDial(t, s, Peer{Address: target})
		if err != nil {
			t.Fatal(err)
		}
		c.auth("ana")
		synctest.Wait()
		s.shards[0].conns.byID[1].sess = session.Session{} // the shard is idle
		c.send(`{"action":"ping","id":"payload of the client"}`)
		c.want(`"type":"Error","code":500,"reason":"internal"`)
		c.wantClose(4500, "internal")
		c.nc.Close()
		other.echo("still here")
		synctest.Wait()
		if open := s.Stats().Open; open != 1 {
			t.Errorf("%d connections open", open)
		}
		if !strings.Contains(log.String(), "session panicked") || !strings.Contains(log.String(), "input.go") {
			t.Errorf("no stack in the log: %s", &log)
		}
		if strings.Contains(log.String(), "payload of the client") {
			t.Errorf("the log contains what the client sent: %s", &log)
		}
	})
}

func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Env: &session.Env{Verify: verify, Registry: new(session.Registry), Version: "test"}, Hub: hub.New(hub.Config{})})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		polite, rude, checking := dial(t, s), dial(t, s), dial(t, s)
		polite.auth("ana")
		checking.send(`{"action":"auth_token","token":"stuck"}`)
		synctest.Wait()
		begin := time.Now()
		cancel()
		polite.want(`"code":503,"reason":"shutting_down"`)
		polite.wantClose(4503, "shutting_down")
		polite.write(closing(4503, ""))
		polite.wantEnd()
		if err := s.Serve(nil, Peer{}); !errors.Is(err, ErrClosed) {
			t.Errorf("Serve while ending: %v", err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("ended after %v", took)
		}
		rude.wantEnd()
		checking.wantEnd()
	})
}

func TestConnSlots(t *testing.T) {
	peer := func(i int) Peer {
		return Peer{Address: netip.AddrFrom4([4]byte{127, 0, byte(i >> 8), byte(i)})}
	}
	t.Run("of one address", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, func(cfg *Config) { cfg.MaxUnauthenticatedPerAddress = 3 })
			other, err := tryDial(t, s, peer(1)) // the oldest of all
			if err != nil {
				t.Fatal(err)
			}
			first, second, third, fourth := dial(t, s), dial(t, s), dial(t, s), dial(t, s)
			first.want(`"code":503,"reason":"overloaded"`)
			first.wantClose(4503, "overloaded")
			synctest.Wait()
			// The place of the first is free at once, although its peer has not answered.
			if got, want := slotStats(s), (Stats{Open: 4, Unauthenticated: 4}); got != want {
				t.Errorf("stats %+v, want %+v", got, want)
			}
			second.auth("ana") // releases a slot
			fifth := dial(t, s)
			third.nc.Close() // so does this
			synctest.Wait()
			sixth := dial(t, s)
			for _, c := range []*client{other, fourth, fifth, sixth} {
				c.auth("ana")
			}
			synctest.Wait()
			if got, want := slotStats(s), (Stats{Open: 5}); got != want {
				t.Errorf("stats %+v, want %+v", got, want)
			}
		})
	})
	t.Run("unauthenticated in all", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, func(cfg *Config) { cfg.MaxUnauthenticated = 4 })
			var clients []*client
			for i := range 6 {
				c, err := tryDial(t, s, peer(i))
				if err != nil {
					t.Fatal(err)
				}
				clients = append(clients, c)
			}
			for _, oldest := range clients[:2] {
				oldest.want(`"code":503,"reason":"overloaded"`)
				oldest.wantClose(4503, "overloaded")
				oldest.nc.Close()
			}
			for _, c := range clients[2:] {
				c.auth("ana")
			}
			synctest.Wait()
			if got, want := slotStats(s), (Stats{Open: 4}); got != want {
				t.Errorf("stats %+v, want %+v", got, want)
			}
		})
	})
	t.Run("in all", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, func(cfg *Config) { cfg.MaxOpen = 2 })
			dial(t, s).auth("ana")
			c := dial(t, s)
			if _, err := tryDial(t, s, peer(1)); !errors.Is(err, ErrFull) {
				t.Errorf("third: %v", err)
			}
			c.nc.Close()
			synctest.Wait()
			if _, err := tryDial(t, s, peer(1)); err != nil {
				t.Errorf("after one has gone: %v", err)
			}
		})
	})
}

// TestIdleStorm checks the limit with many clients that connect and send nothing.
func TestIdleStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := soak(20_000)
		s := start(t, func(cfg *Config) { cfg.MaxUnauthenticated = n / 2; cfg.MaxOpen = 2 * n })
		for i := range n {
			if _, err := tryDial(t, s, Peer{Address: netip.AddrFrom4([4]byte{127, byte(i >> 16), byte(i >> 8), byte(i)})}); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.Stats().Unauthenticated; got != n/2 {
			t.Errorf("%d unauthenticated, the cap is %d", got, n/2)
		}
		advance(9 * time.Second)
		if got := s.Stats().Open; got != n/2 {
			t.Errorf("%d open after the oldest were closed, want %d", got, n/2)
		}
		advance(4 * time.Second)
		if got := s.Stats(); got.Open != 0 || got.Unauthenticated != 0 {
			t.Errorf("left after the time to authenticate: %+v", got)
		}
	})
}

// TestCyclesLeaveNothing connects and disconnects in every way.
func TestCyclesLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		for i := range soak(10_000) {
			c := dial(t, s)
			if i%2 == 0 {
				c.auth("ana")
			}
			switch i % 5 {
			case 0:
				c.write(closing(1000, ""))
				c.wantClose(1000, "")
			case 1:
				c.write(frame(opText, "cut off")[:5])
			case 2:
				c.write("\xff\xff")
			case 3:
				c.send(`{"action":"auth_token","token":"bad"}`)
			}
			c.nc.Close()
		}
		advance(15 * time.Second)
		if got := s.Stats(); got.Open != 0 || got.Unauthenticated != 0 {
			t.Errorf("left: %+v", got)
		}
		if n := goroutines(t); n != 0 {
			t.Errorf("%d goroutines of connections left", n)
		}
	})
}
