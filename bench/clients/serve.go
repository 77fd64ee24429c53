package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/ruedahq/rueda/internal/base/frame"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

const (
	instruments = 100
	firstTime   = 1795185000123456789 // of the first event, Unix ns
	chunk       = 64 << 10            // bytes that are written together

	pause = 500 * time.Millisecond // before the events, so that a client has read the answers
)

// symbols returns the symbols of all instruments.
func symbols() (list []string) {
	for i := range instruments {
		list = append(list, "S"+strconv.Itoa(100+i))
	}
	return list
}

// startServer starts the server as a process, and returns its address. stop ends it.
func startServer(ctx context.Context, exe string, events int) (url string, stop func(), err error) {
	cmd := exec.CommandContext(ctx, exe, "serve", strconv.Itoa(events))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	return strings.TrimSpace(line), stop, err
}

// serve is the server process. It prints its address, and ends with its standard input.
func serve(ctx context.Context, text string, out io.Writer) error {
	events, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "http://%s\n", l.Addr()); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = l.Close()
	}()
	if err := http.Serve(l, newServer(ctx, events)); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// newServer returns the handler of both protocols, as far as the clients need them.
func newServer(ctx context.Context, events int) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /auth/token", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"success":true,"data":{"access_token":"a","token_type":"Bearer","expires_in":3600,"refresh_token":"r","refresh_expires_in":86400,"scope":"marketdata:read"}}`)
	})
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) {
		handle(ctx, w, r, func(c *conn) error { return c.rueda(events) })
	})
	mux.HandleFunc("GET /alpaca/{batch}/iex", func(w http.ResponseWriter, r *http.Request) {
		batch, err := strconv.Atoi(r.PathValue("batch"))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		handle(ctx, w, r, func(c *conn) error { return c.alpaca(events, batch) })
	})
	return mux
}

// conn is a connection of a client.
type conn struct {
	*websocket.Conn
	ctx context.Context
	tcp net.Conn // frames are written to it directly, many together
	out []byte

	left chan struct{} // closed when the client has left
}

// hijacker remembers the network connection.
type hijacker struct {
	http.ResponseWriter
	conn net.Conn
}

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	h.conn = c
	return c, rw, err
}

func handle(ctx context.Context, w http.ResponseWriter, r *http.Request, do func(*conn) error) {
	h := &hijacker{ResponseWriter: w}
	ws, err := websocket.Accept(h, r, &websocket.AcceptOptions{Subprotocols: []string{wire.Batch.Subprotocol(), wire.Msgpack.Subprotocol()}})
	if err != nil {
		return
	}
	defer func() { _ = ws.CloseNow() }()
	c := &conn{Conn: ws, ctx: ctx, tcp: h.conn, out: make([]byte, 0, 2*chunk), left: make(chan struct{})}
	if err := do(c); err == nil {
		<-c.left
	}
}

// begin waits until the client has read the answers. From then on the connection answers its pings.
func (c *conn) begin() {
	time.Sleep(pause)
	go func() {
		defer close(c.left)
		for {
			if _, _, err := c.Read(c.ctx); err != nil {
				return
			}
		}
	}()
}

// frame adds a frame to what is written next.
func (c *conn) frame(first byte, payload []byte) error {
	c.out = append(frame.AppendHead(c.out, first, len(payload)), payload...)
	if len(c.out) < chunk {
		return nil
	}
	return c.flush()
}

func (c *conn) flush() error {
	_, err := c.tcp.Write(c.out)
	c.out = c.out[:0]
	return err
}

// event returns the content of an event, which is the same in both protocols.
func event(i int) (instrument int, n uint64, price market.Price, size market.Size, at int64) {
	k := i / 2 // a trade and a quote
	return k % instruments, uint64(k/instruments) + 1, market.Price(10_000+k%1000) * market.Scale / 100, market.Size(1+k%100) * market.Scale, firstTime + int64(i)*1000
}

// rueda speaks the protocol of docs/protocol.md.
func (c *conn) rueda(events int) error {
	format, _ := wire.ParseSubprotocol(c.Subprotocol())
	if _, err := c.want("auth_token"); err != nil {
		return err
	}
	if err := c.answer(format, `{"type":"Success","code":200,"msg":"Connected","version":"0","time":"2026-11-20T14:30:00.000000000Z","expires_in":3600,"heartbeat":{"interval":20,"timeout":30},"limits":{"message_bytes":65536}}`); err != nil {
		return err
	}
	id, err := c.want("subscribe")
	if err != nil {
		return err
	}
	if err := c.answer(format, fmt.Sprintf(`{"type":"Subscription","code":200,"msg":"Subscribed","id":%s,"epoch":"e","position":"e:1"}`, id)); err != nil {
		return err
	}
	c.begin()
	var idents []wire.Ident
	for _, s := range symbols() {
		idents = append(idents, wire.MakeIdent(market.InstrumentID{Symbol: s, Market: "BENCH", Term: "CI"}))
	}
	batch := 1
	if format == wire.Batch {
		batch = 16
	}
	var text, packed []byte
	for i := 0; i < events; {
		text = text[:0]
		for j := 0; j < batch && i < events; i, j = i+1, j+1 {
			if format == wire.Batch {
				text = append(text, "[,"[min(j, 1)])
			}
			instrument, n, price, size, at := event(i)
			h := &wire.Header{Ident: idents[instrument], N: n, Time: at, Latency: -1}
			if i%2 == 0 {
				text = wire.AppendTrade(text, h, &wire.Trade{Price: price, Size: size, ID: strconv.Itoa(i), Side: market.Buy})
			} else {
				text = wire.AppendQuote(text, h, market.Level{Price: price, Size: size}, market.Level{Price: price + market.Scale/100, Size: size}, false)
			}
		}
		first, payload := byte(frame.Text), text
		switch format {
		case wire.Batch:
			payload = append(text, ']')
		case wire.Msgpack:
			packed = wire.AppendMsgpack(packed[:0], text)
			first, payload = frame.Binary, packed
		}
		if err := c.frame(first, payload); err != nil {
			return err
		}
	}
	return c.flush()
}

// want reads a message of the client, and returns its id.
func (c *conn) want(action string) (id string, err error) {
	var m struct {
		Action string
		ID     json.Number
	}
	_, data, err := c.Read(c.ctx)
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err == nil && m.Action != action {
		err = fmt.Errorf("the client sends %q, want %q", m.Action, action)
	}
	return m.ID.String(), err
}

// answer sends a message in a format.
func (c *conn) answer(format wire.Format, text string) error {
	switch format {
	case wire.Batch:
		text = "[" + text + "]"
	case wire.Msgpack:
		return c.Write(c.ctx, websocket.MessageBinary, wire.AppendMsgpack(nil, []byte(text)))
	}
	return c.Write(c.ctx, websocket.MessageText, []byte(text))
}

// alpaca speaks the protocol of Alpaca's market data, in MessagePack.
func (c *conn) alpaca(events, batch int) error {
	names := symbols()
	for _, message := range []map[string]any{{"T": "success", "msg": "connected"}, {"T": "success", "msg": "authenticated"}, {"T": "subscription", "trades": names, "quotes": names}} {
		if message["msg"] != "connected" { // the answer to auth and subscribe
			if _, _, err := c.Read(c.ctx); err != nil {
				return err
			}
		}
		data, err := msgpack.Marshal([]any{message})
		if err != nil {
			return err
		}
		if err := c.Write(c.ctx, websocket.MessageBinary, data); err != nil {
			return err
		}
	}
	c.begin()
	var b bytes.Buffer
	e := msgpack.NewEncoder(&b)
	e.UseCompactInts(true)
	for i := 0; i < events; {
		b.Reset()
		n := min(batch, events-i)
		err := e.EncodeArrayLen(n)
		for ; n > 0; i, n = i+1, n-1 {
			err = errors.Join(err, alpacaEvent(e, names, i))
		}
		if err = errors.Join(err, c.frame(frame.Binary, b.Bytes())); err != nil {
			return err
		}
	}
	return c.flush()
}

// alpacaEvent encodes a trade or a quote, with the members of Alpaca's documentation in their order.
func alpacaEvent(e *msgpack.Encoder, names []string, i int) error {
	instrument, _, p, z, at := event(i)
	price, size, when := float64(p)/market.Scale, uint64(z/market.Scale), time.Unix(0, at)
	members := []any{"T", "t", "S", names[instrument], "i", int64(i), "x", "V", "p", price, "s", size, "c", []string{"@"}, "z", "C", "t", when}
	if i%2 == 1 {
		members = []any{"T", "q", "S", names[instrument], "bx", "V", "bp", price, "bs", size, "ax", "V", "ap", price + 0.01, "as", size, "c", []string{"R"}, "z", "C", "t", when}
	}
	err := e.EncodeMapLen(len(members) / 2)
	for _, m := range members {
		err = errors.Join(err, e.Encode(m))
	}
	return err
}
