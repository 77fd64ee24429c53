//go:build !386

package socket

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/session"
)

// BenchmarkFlush measures the cost of a message for a reader without the socket: 1,000 readers of
// one topic write to /dev/null. Subtract the cost of the system calls.
func BenchmarkFlush(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	fd := int32(null.Fd())
	for _, readers := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(readers), func(b *testing.B) {
			p := newPublisher(b)
			s := newServer(func(c *Config) { p.config(c); c.FlushInterval = -1 })
			sh := s.shards[0]
			now := time.Now()
			for range readers {
				id, _ := verify(b.Context(), "ana")
				c := &conn{shard: sh, fd: fd, optional: new(optional)}
				c.handshake = &handshakeState{conn: c, identity: id}
				sh.conns.add(c)
				sh.startSession(now, c)
				c.sess.Handle(now, session.Event{Kind: session.Text, Message: []byte(`{"action":"subscribe","trades":["` + testInstrument + `"],"snapshot":false}`)})
				sh.flush(now, c)
			}
			p.publish(1)
			sh.runOnce(now)
			b.ReportAllocs()
			for b.Loop() {
				p.publish(1)
				sh.runOnce(time.Now())
			}
			took := b.Elapsed()
			if sh.counts.writes.Load() < uint64(b.N*readers) {
				b.Fatal("not all was written")
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(b.N)/float64(readers), "ns/write")
			start := time.Now()
			msg := make([]byte, 123)
			for range 100_000 {
				sh.kernel.write(fd, msg)
			}
			b.ReportMetric(float64(time.Since(start).Nanoseconds())/100_000, "ns/call")
			for _, c := range sh.conns.byID {
				sh.endSession(c)
			}
		})
	}
}

// TestExpensiveInputDelaysNoOthers checks that published messages are written between the inputs of
// other connections if each input takes long, for inputs from the poller, for the rest of earlier
// reads, and for the inbox.
func TestExpensiveInputDelaysNoOthers(t *testing.T) {
	const senders = 4
	for _, from := range []string{"poller", "read list", "inbox"} {
		t.Run(from, func(t *testing.T) {
			p := newPublisher(t)
			s := newServer(func(c *Config) { p.config(c); c.FlushInterval, c.Shards = -1, 1 })
			sh, reader, _ := connOnStoppedShard(t, s)
			sh.loop = &eventLoop{shard: sh, buffer: make([]byte, readBufferSize)}
			now := time.Now()
			reader.sess.Handle(now, session.Event{Kind: session.Text, Message: []byte(`{"action":"subscribe","trades":["` + testInstrument + `"],"snapshot":false}`)})
			sh.flush(now, reader)
			ping := []byte(frame(0x81, `{"action":"ping"}`))
			var events []pollEvent
			for range senders {
				_, c, peer := connOnStoppedShard(t, s)
				sh.flush(now, c)
				switch _, err := syscall.Write(peer, ping); {
				case err != nil:
					t.Fatal(err)
				case from == "poller":
					events = append(events, pollEvent{Fd: c.id, Events: syscall.EPOLLIN})
				case from == "read list":
					c.readPending = true
					sh.loop.queueRead(c)
				default:
					sh.inbox.items = append(sh.inbox.items, input{kind: inputEvent, conn: c,
						event: session.Event{Kind: session.Extended, Expires: now.Add(time.Hour)}})
				}
			}
			order := ""
			s.onStep = func(c *conn, st step) {
				if c != reader && (st == stepMessage || st == stepEvent) {
					order += "i"
					for began := time.Now(); time.Since(began) < 2*inputSlice; { // an expensive input
					}
				}
			}
			s.kernel.fault = func(call syscallID, fd, _ int32) syscall.Errno {
				if call == callWrite && fd == reader.fd {
					order += "w"
				}
				return 0
			}
			p.publish(1)
			sh.loop.handleEvents(now, events)
			for range senders {
				sh.runOnce(time.Now())
				events, sh.loop.rest = sh.loop.rest, nil
				sh.loop.handleEvents(time.Now(), events)
			}
			if want := "iwiii"; order != want {
				t.Errorf("order of inputs and writes to the reader %q; want %q", order, want)
			}
		})
	}
}
