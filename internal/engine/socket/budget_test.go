package socket

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/deflate"
	"github.com/ruedahq/rueda/market"
)

// pieces is input of one kind, each of which is one write.
type pieces struct {
	name     string
	deflate  bool
	list     []string // sent in rotation
	deflated int      // bytes of each message, if it is compressed
	inflated int      // the same, when it is inflated
}

// inputKinds returns input that no other limit applies to.
func inputKinds() []pieces {
	const pong = `{"action":"pong"}`
	fragments := []string{part(opText, "")}
	for range 998 {
		fragments = append(fragments, part(opContinuation, ""))
	}
	fragments = append(fragments, frame(opContinuation, pong))
	long := pong + strings.Repeat(" ", 60_000)
	var bytes []string
	for _, b := range []byte(frame(opText, pong+strings.Repeat(" ", 1000))) {
		bytes = append(bytes, string([]byte{b}))
	}
	short := string(new(deflate.Compressor).Append(nil, []byte(long)))
	empty := emptyBlocks(20_000)
	return []pieces{
		{name: "pings", list: []string{frame(opPing, "")}},
		{name: "pongs", list: []string{frame(opPong, "")}},
		{name: "JSON pongs", list: []string{frame(opText, pong)}},
		{name: "empty fragments", list: fragments},
		{name: "long messages", list: []string{frame(opText, long)}},
		{name: "single bytes", list: bytes},
		{name: "compressed messages", deflate: true, deflated: len(short), inflated: len(long), list: []string{compressedFrame(opText, short)}},
		{name: "empty blocks", deflate: true, deflated: len(empty), inflated: len(pong), list: []string{compressedFrame(opText, empty)}},
	}
}

// emptyBlocks returns at most n bytes of deflate, and hardly fewer, that are inflated to a pong.
// Before it they have empty blocks with codes of their own, which take the most time to inflate.
func emptyBlocks(n int) string {
	const pong = `{"action":"pong"}`
	var out []byte
	var word uint64
	bits := 0
	put := func(v uint64, n int) {
		word |= v << bits
		for bits += n; bits >= 8; bits -= 8 {
			out, word = append(out, byte(word)), word>>8
		}
	}
	for len(out) < n-len(pong)-18 {
		put(2<<1, 3)    // dynamic codes
		put(14<<10, 14) // of 257 symbols and one distance; 18 lengths of codes follow
		for i := range 18 {
			length := uint64(0)
			if i == 2 || i == 17 { // of the symbols 18, many zeros, and 1
				length = 1
			}
			put(length, 3)
		}
		put(1|127<<1, 8) // 138 zeros
		put(1|107<<1, 8) // 118 zeros
		put(0, 3)        // the end of block, a distance, and the end
	}
	if put(0, 3); bits > 0 { // a stored block
		put(0, 8-bits)
	}
	out = append(out, byte(len(pong)), 0, ^byte(len(pong)), 0xff)
	return string(append(append(out, pong...), 0))
}

// cost returns what the pieces to the nth one take from the budget.
func (p *pieces) cost(n int) (bytes int) {
	for i := range n {
		size := len(p.list[i%len(p.list)])
		parts := (size + readSize - 1) / readSize
		bytes += size + inflateCost*p.deflated + p.inflated + parts*partCost
		if size > 1 || (i+1)%len(p.list) == 0 { // the end of a frame
			bytes += frameCost - partCost
		}
	}
	return bytes
}

// TestInputBudget floods a connection with each kind of input. 1.5 MiB are read at once, and 256
// KiB a second after that, in pauses of less than a second.
func TestInputBudget(t *testing.T) {
	for _, p := range inputKinds() {
		t.Run(p.name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { flood(t, &p) }) })
	}
}

func flood(t *testing.T, p *pieces) {
	s := start(t, nil)
	c := dialDeflate(t, s, p.deflate)
	c.auth("plain")
	go io.Copy(io.Discard, c.r)
	var sent atomic.Int64
	go func() {
		for i := 0; ; i++ {
			if _, err := io.WriteString(c.nc, p.list[i%len(p.list)]); err != nil {
				return
			}
			sent.Add(1)
		}
	}()
	largest := 0
	for i := range min(len(p.list), 2) {
		largest = max(largest, p.cost(i+1)-p.cost(i))
	}
	// A pause leaves what is refilled in 0.1 s. Authentication and two more pieces add to it.
	tolerance := inputRate/10 + 2*largest + 4<<10
	before := 0
	for second := range 12 {
		synctest.Wait()
		n := int(sent.Load())
		if n <= before {
			t.Fatalf("nothing was read in second %d", second)
		}
		before = n
		want := inputRate*6 + second*inputRate
		if got := p.cost(n); got < want-tolerance || got > want+tolerance {
			t.Errorf("after %d s: %d pieces that count as %d bytes, want %d", second, n, got, want)
		}
		advance(time.Second)
	}
	if total, _ := s.Counters(); total.Pauses < 12 || total.Pauses > 130 {
		t.Errorf("%d pauses", total.Pauses)
	}
}

// TestInputOfBefore closes connections that have used up their input budget. A new one of the same
// user starts with what is left of it, and one of another user with a whole one.
func TestInputOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		pauses := func(token string, pongs int) int {
			before, _ := s.Counters()
			c := dial(t, s)
			c.auth(token)
			c.write(strings.Repeat(frame(opPong, ""), pongs))
			synctest.Wait()
			after, _ := s.Counters()
			c.nc.Close()
			synctest.Wait()
			return int(after.Pauses - before.Pauses)
		}
		for _, x := range []struct {
			token       string
			pongs, want int
		}{{"plain", 1150, 0}, {"plain", 100, 1}, {"other", 1150, 0}, {"plain", 100, 1}} {
			if got := pauses(x.token, x.pongs); got != x.want {
				t.Errorf("%s, %d pongs: %d pauses, want %d", x.token, x.pongs, got, x.want)
			}
		}
		time.Sleep(6 * time.Second)
		if got := pauses("plain", 1100); got != 0 {
			t.Errorf("%d pauses after 6 s", got)
		}
	})
}

// dialDeflate connects over a pipe with a handshake, which may offer compression.
func dialDeflate(t *testing.T, s *Server, offer bool) *client {
	t.Helper()
	l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	serveHTTP(t, s, l)
	nc, err := l.dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	c := newClient(t, nc)
	head := goodHandshake
	if offer {
		head += "Sec-WebSocket-Extensions: permessage-deflate\r\n"
	}
	c.write(head + "\r\n")
	r, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.inflate = r.Header.Get("Sec-WebSocket-Extensions") != ""; c.inflate != offer {
		t.Fatalf("handshake answered %s with extensions %q", r.Status, r.Header.Get("Sec-WebSocket-Extensions"))
	}
	return c
}

// TestBelowInputBudget checks that a client is never paused which subscribes to 2,000 identifiers,
// resumes all of them three times in a row, answers every ping and sends 20 messages of 11 KiB a
// second.
func TestBelowInputBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPublisher(t)
		var trades, resume []string
		for i := range 2000 {
			id := market.InstrumentID{Symbol: fmt.Sprintf("BOND%04dX", i), Market: "BYMA", Term: "24hs"}
			if _, err := p.hub.Define(market.Instrument{ID: id, PriceDecimals: 2}); err != nil {
				t.Fatal(err)
			}
			trades, resume = append(trades, `"`+id.String()+`"`), append(resume, `"`+id.String()+`":123456789`)
		}
		s := start(t, p.config)
		c := dial(t, s)
		c.auth("plain")
		var pongs atomic.Int64
		reply := make(chan struct{}, 1)
		go func() {
			for {
				_, payload, err := c.frame()
				switch {
				case err != nil:
					return
				case payload == `{"action":"ping"}`:
					reply <- struct{}{}
				case strings.HasPrefix(payload, `{"action":"pong"`):
					pongs.Add(1)
				}
			}
		}()
		for range 3 {
			for i := 0; i < len(trades); i += 667 {
				end := min(i+667, len(trades))
				c.write(frame(opText, `{"action":"subscribe","trades":[`+strings.Join(trades[i:end], ",")+
					`],"resume":{"epoch":"none","trades":{`+strings.Join(resume[i:end], ",")+`}}}`))
			}
			c.write(frame(opText, `{"action":"unsubscribe","trades":[`+strings.Join(trades, ",")+`]}`))
		}
		advance(10 * time.Second) // until the rate of messages has recovered from this
		const seconds = 60
		for range seconds * 20 {
			c.write(frame(opText, `{"action":"ping","id":1`+strings.Repeat(" ", 11<<10-24)+`}`))
			select {
			case <-reply:
				c.write(frame(opText, `{"action":"pong"}`))
			default:
			}
			advance(50 * time.Millisecond)
		}
		if total, _ := s.Counters(); total.Pauses != 0 || pongs.Load() != seconds*20 {
			t.Errorf("%d pauses, %d answers", total.Pauses, pongs.Load())
		}
	})
}

// TestPaused checks a connection while it is paused: it gets data and a close at once, its peer's
// close is read within a second, and it leaves nothing.
func TestPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPublisher(t)
		s := start(t, p.config)
		c := dial(t, s)
		c.auth("plain")
		c.subscribe()
		begin := time.Now()
		c.write(strings.Repeat(frame(opPong, ""), 1250)) // 50 more than are read at once
		synctest.Wait()
		if total, _ := s.Counters(); total.Pauses != 1 {
			t.Fatalf("%d pauses", total.Pauses)
		}
		p.publish(1)
		if err := c.trades(1, 1); err != nil {
			t.Fatal(err)
		}
		s.cfg.Env.Registry.RevokeUser("u-plain")
		c.want(`"reason":"token_revoked"`)
		c.wantClose(4401, "token_revoked")
		if took := time.Since(begin); took != 0 {
			t.Errorf("data and close took %v", took)
		}
		c.write(closing(4401, ""))
		c.wantEnd()
		if took := time.Since(begin); took < minPause || took > time.Second {
			t.Errorf("the answer to the close was read after %v", took)
		}
		if st := slotStats(s); st != (Stats{}) {
			t.Errorf("after the end: %+v", st)
		}
	})
}

// TestPausedHeartbeat checks that a connection which is paused all the time is not closed for a
// pong that is behind its flood, and is closed 30 s after the flood.
func TestPausedHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		c := dial(t, s)
		c.auth("plain")
		ended := make(chan time.Time)
		go func() {
			c.skipTo()
			ended <- time.Now()
		}()
		for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
			c.write(frame(opPong, ""))
		}
		begin := time.Now()
		// The 30 s began at the first ping, and stood still in nearly all of the flood.
		if took := (<-ended).Sub(begin); took < 20*time.Second || took > 31*time.Second {
			t.Errorf("closed %v after the flood", took)
		}
	})
}

// TestPausedTransports checks on every transport that what is sent past the budget is handled in
// order after pauses, and that the first of them is logged.
func TestPausedTransports(t *testing.T) {
	forAllTransports(t, func(t *testing.T, tr transport) {
		var log safeBuffer
		s := openServer(t, tr, func(c *Config) {
			raiseLimits(c)
			c.Logger = slog.New(slog.NewJSONHandler(&log, nil))
		})
		c := s.connect("")
		c.auth("plain")
		const pings = 1300
		var flood strings.Builder
		for i := range pings {
			flood.WriteString(frame(opPing, strconv.Itoa(i)))
		}
		flood.WriteString(frame(opText, `{"action":"ping","id":"last"}`))
		c.write(flood.String())
		for i := range pings {
			if opcode, payload, err := c.next(); opcode != opPong || payload != strconv.Itoa(i) || err != nil {
				t.Fatalf("got opcode %d %q, %v, want pong %d", opcode, payload, err, i)
			}
		}
		c.want(`"action":"pong","id":"last"`)
		if total, _ := s.Counters(); total.Pauses == 0 {
			t.Error("no pause")
		}
		waitFor(t, "the log", func() bool { return len(log.records(t, "client sends too much")) > 0 })
		if list := log.records(t, "client sends too much"); len(list) != 1 || list[0]["user"] != "u-plain" || list[0]["address"] != "127.0.0.1" {
			t.Errorf("logged %v", list)
		}
	})
}
