package rueda_test

import (
	"bytes"
	"compress/flate"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/base/frame"
	"github.com/ruedahq/rueda/internal/engine/deflate"
	"github.com/ruedahq/rueda/internal/engine/position"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

const vectorsFile = "docs/test-vectors.json"

// checksumVector is a book with its checksum. Levels are JSON as in a message.
type checksumVector struct {
	Name          string          `json:"name"`
	PriceDecimals int             `json:"price_decimals"`
	SizeDecimals  int             `json:"size_decimals"`
	Depth         int             `json:"DL"`
	Bids          json.RawMessage `json:"B"`
	Asks          json.RawMessage `json:"A"`
	Text          string          `json:"text"`
	Checksum      uint32          `json:"K"`
}

// frameVector is a WebSocket frame of the server, in hexadecimal, with its messages.
type frameVector struct {
	Name        string            `json:"name"`
	Subprotocol string            `json:"subprotocol"`
	Compressed  bool              `json:"compressed"`
	Messages    []json.RawMessage `json:"messages"`
	Frame       string            `json:"frame"`
}

// packedVector is a message in MessagePack, in hexadecimal.
type packedVector struct {
	Name    string          `json:"name"`
	Message json.RawMessage `json:"message"`
	Packed  string          `json:"msgpack"`
}

// positionVector is a position in a resume, and whether it has the form of one.
type positionVector struct {
	Position string `json:"position"`
	Valid    bool   `json:"valid"`
	Meaning  string `json:"meaning"`
}

// clientState is what a client remembers of one channel.
type clientState struct {
	Epoch    string            `json:"epoch"`
	Newest   map[string]uint64 `json:"newest"`
	Position string            `json:"position"`
}

// exchangeVector is what the server sends to a client with a state, and what the client does.
type exchangeVector struct {
	Conversation string            `json:"conversation"`
	Before       clientState       `json:"before"`
	Received     []json.RawMessage `json:"received"`
	Processed    []uint64          `json:"processed"` // N of the trades that are new
	Gaps         []uint64          `json:"gaps"`      // N before each gap
	Lost         []json.RawMessage `json:"lost"`
	After        clientState       `json:"after"`
}

func levelOf(t *testing.T, p, z string, orders uint32) market.Level {
	t.Helper()
	price, err := market.ParsePrice(p)
	size, err2 := market.ParseSize(z)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	return market.Level{Price: price, Size: size, Orders: orders}
}

var vectorIdent = wire.MakeIdent(market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "24hs"})

// sentAt is the header of a message of a vector.
func sentAt(n uint64) *wire.Header {
	return &wire.Header{Ident: vectorIdent, N: n, Time: 1795185000123456789, Latency: 184200}
}

func checksumVectors(t *testing.T) (list []checksumVector) {
	many := func(first, step int) (levels []market.Level) {
		for i := range 12 {
			levels = append(levels, levelOf(t, strconv.Itoa(first+i*step), "10", 1))
		}
		return levels
	}
	bids := []market.Level{levelOf(t, "7049.5", "300", 4), levelOf(t, "7049", "150", 2)}
	asks := []market.Level{levelOf(t, "7050", "1200", 9), levelOf(t, "7050.5", "80", 1)}
	for _, c := range []struct {
		name        string
		price, size int
		depth       int
		bids, asks  []market.Level
	}{
		{"a whole book", 2, 0, 5, bids, asks},
		{"after a change: the best bid is smaller, the best ask is gone", 2, 0, 5, []market.Level{levelOf(t, "7049.5", "280", 3), bids[1]}, asks[1:]},
		{"depth 1 covers one level of each side", 2, 0, 1, bids[:1], asks[:1]},
		{"no asks", 2, 0, 5, bids, nil},
		{"an empty book", 2, 0, 5, nil, nil},
		{"sizes with decimals", 2, 5, 5, []market.Level{levelOf(t, "91.07", "0.00042", 0)}, []market.Level{levelOf(t, "91.1", "12.5", 0)}},
		{"negative prices", 2, 0, 5, []market.Level{levelOf(t, "-37.63", "5", 1)}, []market.Level{levelOf(t, "-0.01", "7", 1)}},
		{"depth 25 covers ten levels of each side", 0, 0, 25, many(100, -1), many(101, 1)},
		{"depth 0 (all levels) covers ten too", 0, 0, 0, many(100, -1), many(101, 1)},
	} {
		sum, text := wire.Checksum(nil, c.bids, c.asks, wire.ChecksumLevels(c.depth), c.price, c.size)
		var message struct{ B, A json.RawMessage }
		if err := json.Unmarshal(wire.AppendBookState(nil, sentAt(1), c.depth, c.bids, c.asks, sum), &message); err != nil {
			t.Fatal(err)
		}
		list = append(list, checksumVector{c.name, c.price, c.size, c.depth, message.B, message.A, string(text), sum})
	}
	return list
}

// vectorMessages returns some messages: two trades, a book and a ping.
func vectorMessages(t *testing.T) (trades [2][]byte, book, ping []byte) {
	for i := range trades {
		trades[i] = wire.AppendTrade(nil, sentAt(uint64(1042+i)), &wire.Trade{Kind: market.KindTrade, Side: market.Buy,
			Price: levelOf(t, "7049.5", "1", 0).Price, Size: levelOf(t, "1", "120", 0).Size, ID: strconv.Itoa(88123 + i)})
	}
	c := checksumVectors(t)[0]
	bids := []market.Level{levelOf(t, "7049.5", "300", 4), levelOf(t, "7049", "150", 2)}
	asks := []market.Level{levelOf(t, "7050", "1200", 9), levelOf(t, "7050.5", "80", 1)}
	return trades, wire.AppendBookState(nil, sentAt(5011), 5, bids, asks, c.Checksum), []byte(wire.Ping)
}

func frameVectors(t *testing.T) (list []frameVector) {
	trades, book, ping := vectorMessages(t)
	compressor := &deflate.Compressor{}
	for _, c := range []struct {
		name     string
		format   wire.Format
		messages [][]byte
	}{
		{"a ping", wire.JSON, [][]byte{ping}},
		{"a trade", wire.JSON, [][]byte{trades[0]}},
		{"two trades in a batch", wire.Batch, trades[:]},
		{"a ping in a batch", wire.Batch, [][]byte{ping}},
		{"a trade in MessagePack", wire.Msgpack, [][]byte{trades[0]}},
		{"a book, compressed: first byte c1", wire.JSON | wire.Deflate, [][]byte{book}},
		{"two trades in a batch, compressed", wire.Batch | wire.Deflate, trades[:]},
		{"a trade below 200 bytes is not compressed", wire.JSON | wire.Deflate, [][]byte{trades[0]}},
	} {
		var text []byte
		v := frameVector{Name: c.name, Subprotocol: c.format.Subprotocol()}
		for _, m := range c.messages {
			text = wire.AppendText(text, m)
			v.Messages = append(v.Messages, m)
		}
		made := (&wire.Transcoder{Compress: compressor.Append}).Append(nil, text, c.format)
		first, payload, size := frame.Split(made)
		if size != len(made) {
			t.Fatalf("%s: %d of %d bytes are a frame", c.name, size, len(made))
		}
		v.Compressed, v.Frame = first&frame.Compressed != 0, hex.EncodeToString(made)
		if v.Compressed { // as another implementation reads it
			inflated, err := io.ReadAll(flate.NewReader(io.MultiReader(bytes.NewReader(payload), strings.NewReader("\x00\x00\xff\xff\x01\x00\x00\xff\xff"))))
			want := c.messages[0]
			if c.format&^wire.Deflate == wire.Batch {
				want = slices.Concat([]byte("["), bytes.Join(c.messages, []byte(",")), []byte("]"))
			}
			if err != nil || !bytes.Equal(inflated, want) {
				t.Errorf("%s is read as %s, %v", c.name, inflated, err)
			}
		}
		list = append(list, v)
	}
	return list
}

func packedVectors(t *testing.T) (list []packedVector) {
	trades, book, ping := vectorMessages(t)
	subscribe := `{"action":"subscribe","id":7,"trades":["GGAL|BYMA|24hs"],"depth":5,"snapshot":false}`
	for _, c := range []struct {
		name    string
		message []byte
	}{
		{"the server's ping", ping},
		{"a trade: prices and sizes are extension type 1", trades[0]},
		{"a book: the first two numbers of a level are decimals", book},
		{"an error", wire.AppendError(nil, &wire.Fault{Reason: wire.RateLimited, RetryAfter: 3}, []byte("7"), nil)},
		{"a message of the client", []byte(subscribe)},
	} {
		packed := wire.AppendMsgpack(nil, c.message)
		text, err := wire.AppendUnpacked(nil, packed)
		if err != nil || !bytes.Equal(text, c.message) {
			t.Errorf("%s is read as %s, %v", c.name, text, err)
		}
		list = append(list, packedVector{c.name, c.message, hex.EncodeToString(packed)})
	}
	return list
}

func positionVectors(t *testing.T) []positionVector {
	list := []positionVector{
		{position.At(918273).Text("e7k2"), true, "of a set with one delay"},
		{position.Of([]position.Delayed{{Delay: 0, Position: 70}, {Delay: 900, Position: 20}}).Text("e7k2"), true, "of a set with real time and a delay of 900 s"},
		{"", false, "empty; leave the member out if the position is not known"},
		{"918273", false, "a part of a position"},
		{"e7k2:918274x", false, "changed by the client"},
	}
	for _, v := range list {
		m, fault := wire.ReadMessage([]byte(`{"action":"subscribe","trades":["A|B|C"],"resume":{"epoch":"e7k2","position":`+strconv.Quote(v.Position)+`}}`), nil)
		if fault != nil {
			t.Fatal(fault)
		}
		_, fault = m.Subscribe()
		_, _, err := position.Parse(v.Position)
		if valid := fault == nil && err == nil; valid != v.Valid {
			t.Errorf("position %q is valid: %v, %v", v.Position, fault, err)
		}
	}
	return list
}

// exchangeVectors returns what a server sends in some conversations about resuming.
func exchangeVectors(t *testing.T) (list []exchangeVector) {
	const id = "GGAL|BYMA|24hs"
	trade := func(n uint64) []byte {
		return wire.AppendTrade(nil, sentAt(n), &wire.Trade{Kind: market.KindTrade, Side: market.Buy,
			Price: levelOf(t, "7050", "1", 0).Price, Size: levelOf(t, "1", "10", 0).Size, ID: strconv.FormatUint(n, 10)})
	}
	ack := func(msg string, resumed uint64, lost *wire.Range, position string) []byte {
		s := wire.Subscription{Msg: msg, Epoch: "e1", Position: position}
		s.Given[wire.Trades], s.Lists[wire.Trades], s.Count[wire.Trades] = true, []string{id}, 1
		if resumed > 0 {
			s.Resumed[wire.Trades] = map[string]uint64{id: resumed}
		}
		if lost != nil {
			s.Lost[wire.Trades] = map[string]wire.Range{id: *lost}
		}
		return wire.AppendSubscription(nil, &s)
	}
	caughtUp := func(resumed uint64, position string) []byte {
		var all [wire.NumChannels]map[string]uint64
		if resumed > 0 {
			all[wire.Trades] = map[string]uint64{id: resumed}
		}
		return wire.AppendCaughtUp(nil, nil, "e1", position, &all)
	}
	at := func(epoch string, n uint64, position string) clientState {
		return clientState{epoch, map[string]uint64{id: n}, position}
	}
	for _, c := range []struct {
		conversation string
		before       clientState
		received     [][]byte
	}{
		{"resume", at("e1", 2, "e1:6"), [][]byte{ack("Subscribed", 4, nil, "e1:6"), trade(3), trade(4), caughtUp(4, "e1:9"), trade(5)}},
		{"resume-nothing-missed", at("e1", 2, "e1:6"), [][]byte{ack("Subscribed", 2, nil, "e1:6"), caughtUp(2, "e1:6")}},
		{"resume-lost", at("e1", 2, "e1:6"), [][]byte{
			ack("Subscribed", 1025, &wire.Range{From: 3, To: 1024, Reason: "buffer_exceeded"}, "e1:1033"), trade(1025), caughtUp(1025, "e1:1034"), trade(1026)}},
		{"resume-other-epoch", at("e0", 9, "e0:40"), [][]byte{
			ack("Subscribed", 0, &wire.Range{From: 10, Reason: "epoch_changed"}, "e1:3"), caughtUp(0, "e1:3")}},
		{"resume-ahead", at("e1", 9, "e1:6"), [][]byte{ack("Subscribed", 0, &wire.Range{Reason: "ahead"}, "e1:6"), caughtUp(0, "e1:6")}},
		{"sim-gap", at("e1", 0, "e1:3"), [][]byte{trade(1), trade(3), ack("Unsubscribed", 0, nil, "e1:12"), ack("Subscribed", 3, nil, "e1:4"), trade(2), trade(3), caughtUp(3, "e1:12")}},
	} {
		v := exchangeVector{Conversation: c.conversation, Before: c.before, Processed: []uint64{}, Gaps: []uint64{}, Lost: []json.RawMessage{}}
		for _, m := range c.received {
			v.Received = append(v.Received, m)
		}
		v.After = clientState{c.before.Epoch, map[string]uint64{id: c.before.Newest[id]}, c.before.Position}
		for _, m := range v.Received {
			v.receive(t, m)
		}
		matchConversation(t, &v)
		list = append(list, v)
	}
	return list
}

// receive does what docs/protocol.md says a client does with a message.
func (v *exchangeVector) receive(t *testing.T, text []byte) {
	t.Helper()
	var m struct {
		Type, Epoch, Position, I string
		N                        uint64
		Lost                     struct{ Trades map[string]json.RawMessage }
	}
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	s := &v.After
	switch m.Type {
	case "T":
		n, known := s.Newest[m.I]
		switch {
		case known && m.N <= n: // a repetition
		case known && m.N > n+1:
			v.Gaps = append(v.Gaps, n)
		default:
			s.Newest[m.I] = m.N
			v.Processed = append(v.Processed, m.N)
		}
	case "Subscription":
		if m.Epoch != s.Epoch {
			s.Epoch, s.Newest = m.Epoch, map[string]uint64{}
		}
		for id, lost := range m.Lost.Trades {
			v.Lost = append(v.Lost, lost)
			var r struct{ To uint64 }
			if err := json.Unmarshal(lost, &r); err != nil {
				t.Fatal(err)
			}
			if delete(s.Newest, id); r.To > 0 {
				s.Newest[id] = r.To
			}
		}
	}
	if m.Position != "" {
		s.Position = m.Position
	}
}

// matchConversation checks that a conversation that the tests execute has the messages of a vector,
// in the same order. It may have others between them.
func matchConversation(t *testing.T, v *exchangeVector) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(talkFolder, v.Conversation+".talk"))
	if err != nil {
		t.Fatal(err)
	}
	var patterns []string
	for line := range strings.Lines(string(text)) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "< "); ok {
			patterns = append(patterns, strings.ReplaceAll(regexp.QuoteMeta(p), `\.\.\.`, `.*`))
		}
	}
	at := 0
	for _, message := range v.Received {
		for at < len(patterns) && !regexp.MustCompile("^"+withoutID(patterns[at])+"$").Match(message) {
			at++
		}
		if at++; at > len(patterns) {
			t.Errorf("%s.talk does not have %s", v.Conversation, message)
			return
		}
	}
}

// withoutID removes from a pattern what the vectors leave out: the id of a request, and a second
// instrument.
func withoutID(pattern string) string {
	pattern = regexp.MustCompile(`"id":\d+,?`).ReplaceAllString(pattern, "")
	pattern = strings.ReplaceAll(pattern, `"trades":\["`+regexp.QuoteMeta("GGAL|BYMA|24hs")+`","`+regexp.QuoteMeta("AL30|BYMA|CI")+`"\],"count":\{"trades":2\}`, `.*`)
	return strings.ReplaceAll(pattern, ",}", "}")
}

// TestVectors checks that docs/test-vectors.json has the test vectors that the code makes.
func TestVectors(t *testing.T) {
	var file strings.Builder
	addVectors(t, &file, "checksums", checksumVectors(t))
	addVectors(t, &file, "frames", frameVectors(t))
	addVectors(t, &file, "msgpack", packedVectors(t))
	addVectors(t, &file, "positions", positionVectors(t))
	addVectors(t, &file, "exchanges", exchangeVectors(t))
	compareFile(t, vectorsFile, "{\n"+strings.TrimSuffix(file.String(), ",\n")+"\n}\n")
}

// addVectors adds a list of vectors to the file.
func addVectors[V any](t *testing.T, file *strings.Builder, name string, list []V) {
	t.Helper()
	var lines []string
	for _, v := range list {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, b.String())
	}
	fmt.Fprintf(file, "%q: [\n%s],\n", name, strings.ReplaceAll(strings.Join(lines, ","), "\n,", ",\n"))
}

// compareFile compares a file with its text, or writes it.
func compareFile(t *testing.T, name, want string) {
	t.Helper()
	got, err := os.ReadFile(name)
	if err == nil && string(got) == want {
		return
	}
	if !*update {
		t.Errorf("%s differs from what the code makes (%v): go test . -run TestVectors -update", name, err)
	} else if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
