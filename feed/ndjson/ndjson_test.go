package ndjson

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/feed/feedtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

var ggal = market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "24hs"}

const (
	defineGGAL = `{"type":"F","I":"GGAL|BYMA|24hs","price_decimals":2,"size_decimals":0}`
	defineAL30 = `{"type":"F","I":"AL30|BYMA|CI","price_decimals":2,"size_decimals":0}`
	bookGGAL   = `{"type":"O","I":"GGAL|BYMA|24hs","R":true,"B":[[7049.5,300]],"A":[[7050,1200]]}`
	updateGGAL = `{"type":"O","I":"GGAL|BYMA|24hs","A":[[7050,100]]}`
	tradeGGAL  = `{"type":"T","I":"GGAL|BYMA|24hs","P":7050,"Z":120}`
	helloLine  = `{"type":"Hello"}`
)

// running is a source that runs until the test ends or stop is called.
type running struct {
	t      *testing.T
	source *Source
	addr   net.Addr
	cancel context.CancelFunc
	ended  chan error
}

func start(t *testing.T, config Config, sink feed.Sink) *running {
	t.Helper()
	listening := make(chan net.Addr, 1)
	if config.Listen == "" {
		config.Listen = "127.0.0.1:0"
	}
	config.Anonymous = config.Token == "" && config.TLS == nil
	config.OnListen = func(a net.Addr) { listening <- a }
	source, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, source: source}
	r.run(sink, listening)
	t.Cleanup(r.stop)
	return r
}

func (r *running) run(sink feed.Sink, listening chan net.Addr) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	r.cancel, r.ended = cancel, make(chan error, 1)
	go func() { r.ended <- r.source.Run(ctx, sink) }()
	select {
	case r.addr = <-listening:
	case err := <-r.ended:
		r.t.Fatalf("Run: %v", err)
	}
}

func (r *running) stop() {
	r.cancel()
	if err := <-r.ended; err != nil && !errors.Is(err, context.Canceled) {
		r.t.Errorf("Run returned %v", err)
	}
	r.ended <- nil // stop may be called again
}

// client is a test producer.
type client struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Scanner
}

// dial connects a producer that has sent its Hello.
func (r *running) dial() *client {
	r.t.Helper()
	return r.connect().send(helloLine)
}

// connect connects a producer that has sent nothing.
func (r *running) connect() *client {
	r.t.Helper()
	conn, err := net.Dial(r.addr.Network(), r.addr.String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	return r.client(conn)
}

func (r *running) client(conn net.Conn) *client {
	r.t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		r.t.Fatal(err)
	}
	return &client{r.t, conn, bufio.NewScanner(conn)}
}

func (c *client) send(lines ...string) *client {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, strings.Join(lines, "\n")+"\n"); err != nil {
		c.t.Fatal(err)
	}
	return c
}

// answer is an Error or Warning line.
type answer struct {
	Type, Reason, Msg string
	Code, Line        int
}

func (c *client) answer() answer {
	c.t.Helper()
	if !c.in.Scan() {
		c.t.Fatalf("no answer: %v", c.in.Err())
	}
	var a answer
	if err := json.Unmarshal(c.in.Bytes(), &a); err != nil {
		c.t.Fatalf("%s: %v", c.in.Bytes(), err)
	}
	return a
}

// closed checks that the source closed the connection without another answer.
func (c *client) closed() {
	c.t.Helper()
	if c.in.Scan() {
		c.t.Fatalf("still answered: %s", c.in.Bytes())
	}
	if err := c.in.Err(); err != nil {
		c.t.Fatalf("closed with %v, want end of file", err)
	}
}

// wait waits until n events are recorded and describes them.
func wait(t *testing.T, r *feedtest.Recorder, n int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := r.Wait(ctx, func(events []market.Event) bool { return len(events) >= n }); err != nil {
		t.Fatalf("%d of %d events: %v", len(r.Events()), n, err)
	}
	var out []string
	for _, e := range r.Events() {
		out = append(out, describe(r, e))
	}
	return out
}

func describe(r *feedtest.Recorder, e market.Event) string {
	id := r.ID(e.Handle)
	switch e.Kind {
	case market.KindTrade:
		return fmt.Sprintf("%s trade %s at %s", id, e.Size, e.Price)
	case market.KindQuote:
		return fmt.Sprintf("%s quote", id)
	case market.KindSnapshot:
		return fmt.Sprintf("%s snapshot", id)
	case market.KindUpdate:
		return fmt.Sprintf("%s update", id)
	case market.KindStatus:
		if e.Phase == market.Gap {
			return fmt.Sprintf("%s status gap %s", id, e.Reason)
		}
		return strings.TrimSpace(fmt.Sprintf("%s %s %s", id, e.Phase, e.Reason))
	case market.KindGap:
		return strings.TrimSpace(fmt.Sprintf("%s gap %s", id, e.Reason))
	}
	return fmt.Sprintf("%s kind %d", id, e.Kind)
}

func same(t *testing.T, got, want []string) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("published\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// TestRoundTrip checks that the messages that clients receive, and that a recorder writes, decode
// to the original events.
func TestRoundTrip(t *testing.T) {
	const when = 1795185000123456789
	one := market.Price(market.Scale)
	bids := []market.Level{{Price: 7049 * one, Size: market.Scale, Orders: 4}, {Price: 7048*one + 1, Size: 3}}
	asks := []market.Level{{Price: 7050 * one, Size: 12 * market.Scale}}
	definition := market.Instrument{
		ID: ggal, Name: "Grupo \"Galicia\" ñ", Kind: "equity", ISIN: "ARP495251018", Currency: "ARS", SettlementDays: 1, Multiplier: market.Scale,
		PriceDecimals: 2, Ticks: []market.Tick{{From: 0, Step: 1}, {From: one, Step: 5}}, Lot: 1, MinSize: 2, Phase: market.PreOpen, QuotesFromFeed: true,
	}
	events := []market.Event{
		{Kind: market.KindStatus, Phase: market.Open, Time: when, Until: when + 1},
		{Kind: market.KindSnapshot, Bids: bids, Asks: asks, Time: when},
		{Kind: market.KindTrade, Price: 7050 * one, Size: 5, Side: market.Buy, TradeID: "1", Time: when + 1, TradeDetails: market.TradeDetails{Conditions: []string{"late"}}},
		{Kind: market.KindQuote, Bids: bids[:1], Asks: asks, Time: when + 2},
		{Kind: market.KindUpdate, Asks: []market.Level{{Price: 7050 * one}, {Price: 7051 * one, Size: 1}}, Time: when + 3},
		{Kind: market.KindCorrect, Price: 7050 * one, Size: 4, OldPrice: 7050 * one, OldSize: 5, TradeID: "1", Time: when + 4},
		{Kind: market.KindCancel, Price: 7050 * one, Size: 4, TradeID: "1", Time: when + 5},
		{Kind: market.KindStatus, Phase: market.Halt, Reason: "volatility", Time: when + 6},
	}
	ident := wire.MakeIdent(ggal)

	streamed := wire.AppendDefinition(nil, &definition)
	for i, e := range events {
		h := &wire.Header{Ident: ident, N: uint64(i + 1), Time: e.Time, Latency: 1000}
		streamed = append(streamed, '\n')
		switch e.Kind {
		case market.KindQuote:
			streamed = wire.AppendQuote(streamed, h, e.Bids[0], e.Asks[0], false)
		case market.KindSnapshot:
			streamed = wire.AppendBookState(streamed, h, 0, e.Bids, e.Asks, 7)
		case market.KindUpdate:
			streamed = wire.AppendBookUpdate(streamed, h, 1, e.Bids, e.Asks, 7)
		case market.KindStatus:
			streamed = wire.AppendStatus(streamed, h, e.Phase, e.Reason, e.Until, false)
		default:
			streamed = wire.AppendTrade(streamed, h, &wire.Trade{Kind: e.Kind, Side: e.Side, Price: e.Price, Size: e.Size,
				OldPrice: e.OldPrice, OldSize: e.OldSize, RefN: 3, ID: e.TradeID, TradeDetails: market.TradeDetails{Conditions: e.Conditions}})
		}
	}
	recorded := wire.AppendDefinition(nil, &definition)
	numbered := append([]market.Event(nil), events...)
	numbered = append(numbered, market.Event{Kind: market.KindGap, Reason: "line_down"})
	for i := range numbered {
		numbered[i].Receive = when + 100
		if numbered[i].Kind == market.KindTrade {
			numbered[i].Sequence = 9
		}
		recorded = wire.AppendLine(append(recorded, '\n'), ident, &numbered[i])
	}

	for _, tt := range []struct {
		name  string
		lines []byte
		want  []market.Event
	}{{"streamed", streamed, events}, {"recorded", recorded, numbered}} {
		t.Run(tt.name, func(t *testing.T) {
			var r feedtest.Recorder
			start(t, Config{}, &r).dial().send(string(tt.lines))
			wait(t, &r, len(tt.want))
			if got := r.Definitions()[0]; !reflect.DeepEqual(got, definition) {
				t.Errorf("defined %+v\n   want %+v", got, definition)
			}
			for i, got := range r.Of(ggal) {
				got.Handle = 0
				if !reflect.DeepEqual(got, tt.want[i]) {
					t.Errorf("event %d\n got %+v\nwant %+v", i, got, tt.want[i])
				}
			}
		})
	}
}

func TestBadLines(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		code       int
		reason     string
		msg        string
		gap        string // reason; "": no gap
	}{
		{"not JSON", `GGAL 7050`, 400, "bad_json", "line 3: bad JSON: a line is a JSON object at offset 0", "unreadable_line"},
		{"another type", `{"type":"Success"}`, 400, "bad_message", "line 3: type must be one of T X C Q O H D F Gap", "unreadable_line"},
		{"bad field", `{"type":"T","I":"GGAL|BYMA|24hs","P":7050,"Z":0}`, 400, "bad_field", "line 3: Z must be above 0", "bad_line"},
		{"bad instrument", `{"type":"T","I":"GGAL|BYMA","P":7050,"Z":1}`, 400, "bad_instrument", "line 3: I is not of the form SYMBOL|MARKET|TERM", "unreadable_line"},
		{"unknown instrument", `{"type":"T","I":"YPFD|BYMA|CI","P":1,"Z":1}`, 404, "unknown_instrument", "line 3: YPFD|BYMA|CI is not defined on this connection: send its F line first", ""},
		{"unknown market", `{"type":"H","I":"*|NYSE|*","E":"open"}`, 404, "unknown_instrument", "line 3: no instrument of market NYSE is defined: send an F line first", ""},
		{"too long", `{"x":"` + strings.Repeat("x", MaxLine) + `"}`, 413, "message_too_big", "line 3: longer than 1048576 bytes", "unreadable_line"},
		{"not UTF-8", "{\"type\":\"T\",\"X\":\"\xff\"}", 400, "bad_json", "line 3: bad JSON: not UTF-8", "unreadable_line"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r feedtest.Recorder
			run := start(t, Config{}, &r)
			c := run.dial().send(defineGGAL, tt.line, "", tradeGGAL, `{}`)
			if got, want := c.answer(), (answer{"Error", tt.reason, tt.msg, tt.code, 3}); got != want {
				t.Errorf("answered %+v\n    want %+v", got, want)
			}
			if got := c.answer(); got.Line != 6 {
				t.Errorf("answered %+v, want line 6: blank lines count", got)
			}
			want := []string{"GGAL|BYMA|24hs trade 120 at 7050", "GGAL|BYMA|24hs status gap unreadable_line"}
			if tt.gap != "" {
				want = append([]string{"GGAL|BYMA|24hs status gap " + tt.gap}, want...)
			}
			same(t, wait(t, &r, len(want)), want)
			if got, want := run.source.Stats(), (Stats{Producers: 1, Lines: 4, Events: len(want), Faults: 2}); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

// TestLongestLine checks that a line of the maximum length is accepted.
func TestLongestLine(t *testing.T) {
	var r feedtest.Recorder
	c := start(t, Config{}, &r).dial()
	padding := strings.Repeat(" ", MaxLine-len(tradeGGAL))
	c.send(defineGGAL, tradeGGAL+padding, tradeGGAL+padding+" ")
	if got := c.answer(); got.Reason != "message_too_big" || got.Line != 4 {
		t.Errorf("answered %+v", got)
	}
	same(t, wait(t, &r, 2), []string{"GGAL|BYMA|24hs trade 120 at 7050", "GGAL|BYMA|24hs status gap unreadable_line"})
}

func TestTooManyBadLines(t *testing.T) {
	var r feedtest.Recorder
	run := start(t, Config{MaxFaults: 3}, &r)
	bystander := run.dial().send(defineGGAL)
	c := run.dial()
	c.send("1", "2", defineAL30, "4", "5", "6", tradeGGAL)
	for _, line := range []int{2, 3, 5, 6, 7} {
		if got := c.answer(); got.Reason != "bad_json" || got.Line != line {
			t.Errorf("answered %+v, want line %d", got, line)
		}
	}
	if got := c.answer(); got.Reason != "too_many_failures" || got.Code != 429 {
		t.Errorf("answered %+v", got)
	}
	c.closed()
	bystander.send(tradeGGAL)
	// The invalid lines and the end of their producer are gaps of the instrument that it defined.
	want := []string{"AL30|BYMA|CI status gap producer_gone", "AL30|BYMA|CI status gap unreadable_line", "GGAL|BYMA|24hs trade 120 at 7050"}
	got := wait(t, &r, len(want))
	slices.Sort(got)
	same(t, got, want)
}

func TestTooManyProducers(t *testing.T) {
	var r feedtest.Recorder
	run := start(t, Config{MaxProducers: 1}, &r)
	first := run.dial().send(defineGGAL, "x")
	first.answer()
	second := run.dial()
	if got := second.answer(); got.Reason != "overloaded" || got.Code != 503 || got.Msg != "1 producers are connected, which is the limit" {
		t.Errorf("answered %+v", got)
	}
	second.closed()
	first.send(tradeGGAL)
	wait(t, &r, 1)
}

func TestTooManyInstruments(t *testing.T) {
	c := start(t, Config{MaxInstruments: 1}, new(feedtest.Recorder)).dial().send(defineGGAL, defineAL30, defineGGAL, "x")
	if got := c.answer(); got.Reason != "bad_field" || got.Msg != "line 3: definition refused: 1 instruments are defined, which is the limit" {
		t.Errorf("answered %+v", got)
	}
	if got := c.answer(); got.Line != 5 {
		t.Errorf("answered %+v", got)
	}
}

// TestPieces checks that the last line may lack its line feed and that lines may arrive in pieces.
func TestPieces(t *testing.T) {
	var r feedtest.Recorder
	c := start(t, Config{}, &r).dial()
	for _, piece := range []string{defineGGAL[:10], defineGGAL[10:] + "\r\n" + tradeGGAL[:7], tradeGGAL[7:]} {
		if _, err := io.WriteString(c.conn, piece); err != nil {
			t.Fatal(err)
		}
	}
	c.conn.(*net.TCPConn).CloseWrite()
	same(t, wait(t, &r, 2), []string{"GGAL|BYMA|24hs trade 120 at 7050", "*|BYMA|* feed_down producer_gone"})
}

// TestProducersComeAndGo checks that the feed of a market is down when its last producer
// disconnects, and up when one returns.
func TestProducersComeAndGo(t *testing.T) {
	var r feedtest.Recorder
	run := start(t, Config{}, &r)
	a := run.dial().send(defineGGAL, bookGGAL, updateGGAL)
	want := []string{"GGAL|BYMA|24hs snapshot", "GGAL|BYMA|24hs update"}
	same(t, wait(t, &r, 2), want)

	b := run.dial().send(defineAL30, strings.Replace(tradeGGAL, "GGAL|BYMA|24hs", "AL30|BYMA|CI", 1))
	want = append(want, "AL30|BYMA|CI trade 120 at 7050")
	same(t, wait(t, &r, 3), want)

	a.conn.Close()
	want = append(want, "GGAL|BYMA|24hs gap producer_gone")
	same(t, wait(t, &r, 4), want)

	// The instrument is free: another producer may define it.
	b.send(defineGGAL, tradeGGAL)
	want = append(want, "GGAL|BYMA|24hs trade 120 at 7050")
	same(t, wait(t, &r, 5), want)

	b.conn.Close()
	want = append(want, "*|BYMA|* feed_down producer_gone")
	same(t, wait(t, &r, 6), want)

	run.dial().send(defineGGAL, tradeGGAL, tradeGGAL)
	want = append(want, "*|BYMA|* feed_up", "GGAL|BYMA|24hs trade 120 at 7050", "GGAL|BYMA|24hs trade 120 at 7050")
	same(t, wait(t, &r, 9), want)
}

// TestRunAgain checks that the end of a Run disconnects its producers and that the next Run knows
// which feeds were down.
func TestRunAgain(t *testing.T) {
	listening := make(chan net.Addr, 1)
	source, err := New(Config{Listen: "127.0.0.1:0", Anonymous: true, OnListen: func(a net.Addr) { listening <- a }})
	if err != nil {
		t.Fatal(err)
	}
	run := &running{t: t, source: source}
	var r feedtest.Recorder
	run.run(&r, listening)
	if source.Addr() == nil || source.Addr().String() != run.addr.String() {
		t.Errorf("Addr is %v, want %v", source.Addr(), run.addr)
	}
	c := run.dial().send(defineGGAL, tradeGGAL)
	wait(t, &r, 1)
	run.stop()
	c.closed()
	if source.Addr() != nil {
		t.Errorf("Addr is %v after Run", source.Addr())
	}
	run.run(&r, listening)
	defer run.stop()
	run.dial().send(tradeGGAL, defineGGAL, tradeGGAL)
	same(t, wait(t, &r, 4), []string{
		"GGAL|BYMA|24hs trade 120 at 7050", "*|BYMA|* feed_down producer_gone",
		"*|BYMA|* feed_up", "GGAL|BYMA|24hs trade 120 at 7050",
	})
}

// refusing rejects updates, and fails on a status.
type refusing struct{ feedtest.Recorder }

var errFull = errors.New("disk full")

func (s *refusing) Publish(events []market.Event) error {
	var errs []error
	for i, e := range events {
		switch e.Kind {
		case market.KindUpdate:
			errs = append(errs, &market.Refused{Index: i, ID: ggal, Reason: "crossed", Detail: "bid above ask"})
			continue
		case market.KindStatus:
			if e.Phase == market.Halt {
				return errFull
			}
		}
		if err := s.Recorder.Publish(events[i : i+1]); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

func TestRefused(t *testing.T) {
	var r refusing
	c := start(t, Config{}, &r).dial().send(defineGGAL, bookGGAL, tradeGGAL, updateGGAL, updateGGAL, tradeGGAL)
	for _, line := range []int{5, 6} {
		if got, want := c.answer(), (answer{"Error", "bad_field", fmt.Sprintf("line %d: refused: crossed: bid above ask", line), 400, line}); got != want {
			t.Errorf("answered %+v\n    want %+v", got, want)
		}
	}
	got := wait(t, &r.Recorder, 4)
	var gaps int
	for _, e := range got {
		if e == "GGAL|BYMA|24hs gap event_refused" {
			gaps++
		}
	}
	if gaps != 1 {
		t.Errorf("published %q, want one gap", got)
	}
}

// TestSinkFails checks that an error of the sink ends the Run.
func TestSinkFails(t *testing.T) {
	run := start(t, Config{}, new(refusing))
	run.dial().send(defineGGAL, `{"type":"H","I":"GGAL|BYMA|24hs","E":"halt"}`)
	err := <-run.ended
	run.ended <- nil
	if !errors.Is(err, errFull) {
		t.Errorf("Run returned %v", err)
	}
}

func TestAddresses(t *testing.T) {
	for _, tt := range []struct {
		listen   string
		insecure bool
		text     string // of the error; "": none
	}{
		{"127.0.0.1:0", false, ""},
		{"[::1]:9000", false, ""},
		{"127.255.0.1:9000", false, ""},
		{"0.0.0.0:9000", true, ""},
		{":9000", true, ""},
		{":9000", false, "not a loopback address"},
		{"0.0.0.0:9000", false, "not a loopback address"},
		{"192.0.2.1:9000", false, "not a loopback address"},
		{"127.0.0.1", false, "missing port"},
		{"127.0.0.1:70000", false, "invalid port"},
		{"", false, "listen address is missing"},
		{"unix:", false, "not unix:PATH"},
		{"unix:/" + strings.Repeat("x", 100) + "/feed.sock", false, "not unix:PATH"},
	} {
		_, err := New(Config{Listen: tt.listen, Insecure: tt.insecure, Anonymous: true})
		switch {
		case tt.text == "" && err != nil:
			t.Errorf("%q: %v", tt.listen, err)
		case tt.text != "" && (err == nil || !strings.Contains(err.Error(), tt.text)):
			t.Errorf("%q: %v, want %q", tt.listen, err, tt.text)
		}
	}
}

func TestUsedPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	source, err := New(Config{Listen: taken.Addr().String(), Anonymous: true})
	if err != nil {
		t.Fatal(err)
	}
	err = source.Run(t.Context(), new(feedtest.Recorder))
	if err == nil || !strings.Contains(err.Error(), "address already in use: use another port than that of "+taken.Addr().String()) {
		t.Errorf("Run returned %v", err)
	}
}

// TestProducerThatDoesNotRead checks that a producer that does not read its answers is closed and
// does not affect others.
func TestProducerThatDoesNotRead(t *testing.T) {
	var r feedtest.Recorder
	run := start(t, Config{MaxFaults: 1 << 30, AnswerTimeout: 50 * time.Millisecond}, &r)
	idle := run.dial()
	gone := make(chan error, 1)
	go func() {
		bad := []byte(strings.Repeat("x\n", 10_000))
		for {
			if _, err := idle.conn.Write(bad); err != nil {
				gone <- err
				return
			}
		}
	}()
	other := run.dial().send(defineGGAL)
	for i := range 10 {
		other.send(tradeGGAL)
		wait(t, &r, i+1)
	}
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Error("still connected after 20 s")
	}
}

// TestManyProducers checks that each line of several producers arrives and that calls of the sink
// do not overlap.
func TestManyProducers(t *testing.T) {
	const producers, lines = 8, 500
	var r feedtest.Recorder
	sink := &exclusive{sink: &r}
	run := start(t, Config{}, sink)
	var senders sync.WaitGroup
	for k := range producers {
		c := run.dial()
		senders.Go(func() {
			own := strings.NewReplacer("GGAL", fmt.Sprintf("GGAL%d", k))
			c.send(own.Replace(defineGGAL))
			for range lines {
				c.send(own.Replace(tradeGGAL))
			}
		})
	}
	wait(t, &r, producers*lines)
	senders.Wait()
	if sink.overlaps > 0 {
		t.Errorf("%d calls of Publish during another", sink.overlaps)
	}
	if n := r.Batches(); n > producers*lines {
		t.Errorf("%d batches", n)
	}
}

// exclusive detects overlapping calls of Publish.
type exclusive struct {
	sink     feed.Sink
	mu       sync.Mutex
	inside   bool
	overlaps int
}

func (s *exclusive) Define(in market.Instrument) (market.Handle, error) { return s.sink.Define(in) }

func (s *exclusive) Publish(events []market.Event) error {
	s.mu.Lock()
	if s.inside {
		s.overlaps++
	}
	s.inside = true
	s.mu.Unlock()
	err := s.sink.Publish(events)
	s.mu.Lock()
	s.inside = false
	s.mu.Unlock()
	return err
}

func TestConformance(t *testing.T) {
	feedtest.Run(t, func(t *testing.T) feed.Source {
		listening := make(chan net.Addr, 1)
		source, err := New(Config{Listen: "127.0.0.1:0", Anonymous: true, OnListen: func(a net.Addr) { listening <- a }})
		if err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		var producer sync.WaitGroup
		producer.Go(func() {
			select {
			case addr := <-listening:
				produce(addr)
			case <-stop: // Run was called with a context that had ended
			}
		})
		t.Cleanup(func() { close(stop); producer.Wait() })
		return source
	}, feedtest.Options{})
}

// produce sends lines until the connection is closed.
func produce(addr net.Addr) {
	conn, err := net.Dial("tcp", addr.String())
	if err != nil {
		return // Run has ended
	}
	defer conn.Close()
	out := bufio.NewWriter(conn)
	fmt.Fprintln(out, helloLine+"\n"+defineGGAL)
	for i := 1; err == nil; i++ {
		when := time.Unix(1795185000, int64(i)*1000).UTC().Format("2006-01-02T15:04:05.000000000Z")
		if i%100 == 1 {
			fmt.Fprintf(out, `{"type":"Gap","I":"GGAL|BYMA|24hs","Y":"test","T":%q}`+"\n", when)
			fmt.Fprintf(out, `{"type":"O","I":"GGAL|BYMA|24hs","R":true,"B":[[10,1]],"A":[[20,1]],"T":%q}`+"\n", when)
		}
		fmt.Fprintf(out, `{"type":"T","I":"GGAL|BYMA|24hs","P":15,"Z":1,"X":"%d","T":%q}`+"\n", i, when)
		_, err = fmt.Fprintf(out, `{"type":"O","I":"GGAL|BYMA|24hs","B":[[10,%d]],"T":%q}`+"\n", i+1, when)
	}
}

// BenchmarkLines measures lines over a real connection to a sink that only counts.
func BenchmarkLines(b *testing.B) {
	listening := make(chan net.Addr, 1)
	source, err := New(Config{Listen: "127.0.0.1:0", Anonymous: true, OnListen: func(a net.Addr) { listening <- a }})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- source.Run(ctx, new(feedtest.CountSink)) }()
	conn, err := net.Dial("tcp", (<-listening).String())
	if err != nil {
		b.Fatal(err)
	}
	out := bufio.NewWriterSize(conn, 64<<10)
	fmt.Fprintln(out, helloLine+"\n"+defineGGAL)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := fmt.Fprintln(out, updateGGAL); err != nil {
			b.Fatal(err)
		}
	}
	out.Flush()
	conn.Close()
	cancel()
	<-ended
}
