package wire

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/market"
)

var ggal = market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "24hs"}

const someTime = 1795185000123456789 // 2026-11-20T14:30:00.123456789Z

// price and size parse a number that a test contains.
func price(t testing.TB, s string) market.Price {
	t.Helper()
	p, err := market.ParsePrice(s)
	if err != nil {
		t.Fatalf("price %q: %v", s, err)
	}
	return p
}

func size(t testing.TB, s string) market.Size {
	t.Helper()
	z, err := market.ParseSize(s)
	if err != nil {
		t.Fatalf("size %q: %v", s, err)
	}
	return z
}

// exampleBooks returns the two books of the example in docs/protocol.md.
func exampleBooks(t testing.TB) (bids, asks, laterBids, laterAsks []market.Level) {
	level := func(p, z string, orders uint32) market.Level {
		return market.Level{Price: price(t, p), Size: size(t, z), Orders: orders}
	}
	bids = []market.Level{level("7049.5", "300", 4), level("7049", "150", 2)}
	asks = []market.Level{level("7050", "1200", 9), level("7050.5", "80", 1)}
	laterBids = []market.Level{level("7049.5", "280", 3), level("7049", "150", 2)}
	laterAsks = []market.Level{level("7050.5", "80", 1)}
	return bids, asks, laterBids, laterAsks
}

// TestMessages compares each data message with its golden bytes.
func TestMessages(t *testing.T) {
	ident := MakeIdent(ggal)
	head := func(n uint64, latency int64) *Header {
		return &Header{Ident: ident, N: n, Time: someTime, Latency: latency}
	}
	bids, asks, _, _ := exampleBooks(t)
	p7050, z120, z100 := price(t, "7050"), size(t, "120"), size(t, "100")
	got := []string{
		string(AppendTrade(nil, head(1042, 184200), &Trade{Kind: market.KindTrade, Side: market.Buy, Price: p7050, Size: z120, ID: "88123"})),
		string(AppendTrade(nil, head(1043, 0), &Trade{Kind: market.KindTrade, Side: market.Sell, Price: -1, Size: size(t, "0.5"), ID: `a"b`, TradeDetails: market.TradeDetails{Conditions: []string{"odd_lot", "late"}}})),
		string(AppendTrade(nil, head(1044, -1), &Trade{Kind: market.KindTrade, Price: p7050, Size: z120})),
		string(AppendTrade(nil, head(1050, 184200), &Trade{Kind: market.KindCancel, Price: p7050, Size: z120, ID: "88123", RefN: 1042})),
		string(AppendTrade(nil, head(1050, 184200), &Trade{Kind: market.KindCancel, Price: p7050, Size: z120, ID: "88123"})),
		string(AppendTrade(nil, head(1051, 184200), &Trade{Kind: market.KindCorrect, Price: price(t, "7045"), Size: z100, OldPrice: price(t, "7450"), OldSize: z100, ID: "88120", RefN: 1039})),
		string(AppendQuote(nil, head(991, 184200), bids[0], asks[0], false)),
		string(AppendQuote(nil, head(992, 184200), market.Level{Price: bids[0].Price, Size: bids[0].Size}, market.Level{}, true)),
		string(AppendQuote(nil, head(993, 184200), market.Level{}, market.Level{}, false)),
		string(AppendBookState(nil, head(5011, 184200), 5, bids, asks, 4051739875)),
		string(AppendBookUpdate(nil, head(5012, 184200), 5011,
			[]market.Level{{Price: price(t, "7049.5"), Size: size(t, "280"), Orders: 3}}, []market.Level{{Price: p7050, Orders: 7}}, 3526765731)),
		string(AppendBookUpdate(nil, head(5013, 184200), 5012, nil, []market.Level{{Price: p7050}}, 0)),
		string(AppendBookState(nil, head(5014, 184200), 0, nil, nil, 622876539)),
		string(AppendStatus(nil, head(7, 184200), market.Halt, "volatility", 1795185300000000000, false)),
	}
	all := &Header{Ident: MakeIdent(market.InstrumentID{Symbol: "*", Market: "BYMA", Term: "*"}), N: 8, Time: someTime, Latency: 184200}
	got = append(got, string(AppendStatus(nil, all, market.Open, "", 0, true)))

	one := price(t, "0.00000001")
	got = append(got,
		string(AppendSummary(nil, head(5123, 184200), &Figures{Open: price(t, "7000"), High: price(t, "7110"), Low: price(t, "6980"), Last: p7050,
			Volume: size(t, "184233").Sum(), Value: price(t, "7040").Times(size(t, "184233")), Trades: 5123, PreviousClose: price(t, "7020"), Settlement: price(t, "7020"), OpenInterest: z100}, false)),
		string(AppendSummary(nil, head(5123, -1), &Figures{PreviousClose: price(t, "7020")}, true)),
		string(AppendBar(nil, head(17, 60000184200), &Bar{Interval: market.Minute, TradingDate: 20261120, Open: p7050, High: price(t, "7055"), Low: price(t, "7048"), Close: price(t, "7052"),
			Volume: size(t, "900").Sum(), Value: price(t, "7051").Times(size(t, "900")), Trades: 14})),
		string(AppendBar(nil, head(18, -1), &Bar{Interval: market.Day, Revised: true, TradingDate: 20261120, Open: -one, High: -one, Low: -one, Close: -one,
			Volume: size(t, "3").Sum(), Value: (-one).Times(size(t, "3")), Trades: 1})),
		string(AppendBar(nil, head(19, -1), &Bar{Interval: market.Second, Revised: true})),
	)
	names, want := golden(t, "testdata/messages.golden")
	if len(want) != len(got) {
		t.Fatalf("%d messages made, the golden file has %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%s:\n got %s\nwant %s", names[i], got[i], want[i])
		}
		if !json.Valid([]byte(got[i])) {
			t.Errorf("%s: not JSON", names[i])
		}
		if _, err := ParseJSON([]byte(got[i])); err != nil {
			t.Errorf("%s: %v", names[i], err)
		}
	}
}

// golden reads a file of lines "name: message".
func golden(t testing.TB, path string) (names, messages []string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		name, message, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if !ok {
			t.Fatalf("%s: a line without a name: %s", path, line)
		}
		names, messages = append(names, name), append(messages, message)
	}
	return names, messages
}

func TestChecksum(t *testing.T) {
	bids, asks, laterBids, laterAsks := exampleBooks(t)
	many := make([]market.Level, 12)
	for i := range many {
		many[i] = market.Level{Price: market.Price(100-i) * market.Scale, Size: market.Scale}
	}
	for _, tt := range []struct {
		name       string
		bids, asks []market.Level
		n          int
		pdec, sdec int
		text       string
		published  uint32 // 0: not one of the protocol's vectors
	}{
		{"the protocol's first book", bids, asks, 5, 2, 0, "704950:300;704900:150;|705000:1200;705050:80;|", 4051739875},
		{"the protocol's second book", laterBids, laterAsks, 5, 2, 0, "704950:280;704900:150;|705050:80;|", 3526765731},
		{"an empty book", nil, nil, 10, 2, 0, "||", 0},
		{"one level of a deeper book", bids, asks, 1, 2, 0, "704950:300;|705000:1200;|", 0},
		{"eight decimals", bids[:1], nil, 10, 8, 3, "704950000000:300000;||", 0},
		{"negative and rounded", []market.Level{{Price: -12345678, Size: 149999999}}, []market.Level{{Price: -1, Size: 150000000}}, 10, 2, 0, "-12:1;|0:2;|", 0},
		{"ten levels at most", many, nil, 10, 0, 0, "100:1;99:1;98:1;97:1;96:1;95:1;94:1;93:1;92:1;91:1;||", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sum, text := Checksum(nil, tt.bids, tt.asks, tt.n, tt.pdec, tt.sdec)
			if string(text) != tt.text {
				t.Errorf("over %q, want %q", text, tt.text)
			}
			if tt.published != 0 && sum != tt.published {
				t.Errorf("checksum %d, want %d", sum, tt.published)
			}
			again, _ := Checksum(bytes.Repeat([]byte("x"), 100), tt.bids, tt.asks, tt.n, tt.pdec, tt.sdec)
			if again != sum {
				t.Errorf("with a used buffer %d, want %d", again, sum)
			}
		})
	}
}

func TestChecksumLevels(t *testing.T) {
	for depth, want := range map[int]int{0: 10, 1: 1, 5: 5, 9: 9, 10: 10, 25: 10} {
		if got := ChecksumLevels(depth); got != want {
			t.Errorf("ChecksumLevels(%d) = %d, want %d", depth, got, want)
		}
	}
}

func TestAppendText(t *testing.T) {
	for _, tt := range []struct {
		n      int
		header []byte
	}{
		{0, []byte{0x81, 0}},
		{125, []byte{0x81, 125}},
		{126, []byte{0x81, 126, 0, 126}},
		{65535, []byte{0x81, 126, 0xff, 0xff}},
		{65536, []byte{0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0}},
	} {
		payload := bytes.Repeat([]byte("a"), tt.n)
		got := AppendText([]byte("before"), payload)
		want := append(append([]byte("before"), tt.header...), payload...)
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes: header % x, want % x", tt.n, got[6:min(len(got), 16)], tt.header)
		}
	}
}

// TestDataAllocs checks that encoders of the hot path do not allocate.
func TestDataAllocs(t *testing.T) {
	bids, asks, _, _ := exampleBooks(t)
	h := &Header{Ident: MakeIdent(ggal), N: 1042, Time: someTime, Latency: 184200}
	trade := &Trade{Kind: market.KindTrade, Side: market.Buy, Price: price(t, "7050"), Size: size(t, "120"), ID: "88123", TradeDetails: market.TradeDetails{Conditions: []string{"odd_lot"}}}
	buf, scratch := make([]byte, 0, 1024), make([]byte, 0, 1024)
	for _, tt := range []struct {
		name string
		run  func()
	}{
		{"trade", func() { buf = AppendTrade(buf[:0], h, trade) }},
		{"quote", func() { buf = AppendQuote(buf[:0], h, bids[0], asks[0], false) }},
		{"book state", func() { buf = AppendBookState(buf[:0], h, 5, bids, asks, 1) }},
		{"book update", func() { buf = AppendBookUpdate(buf[:0], h, 1, bids, asks, 1) }},
		{"status", func() { buf = AppendStatus(buf[:0], h, market.Halt, "volatility", someTime, false) }},
		{"checksum", func() { _, scratch = Checksum(scratch, bids, asks, 10, 2, 0) }},
		{"frame", func() { buf = AppendText(buf[:0], scratch) }},
	} {
		if n := testing.AllocsPerRun(1000, tt.run); n != 0 {
			t.Errorf("%s: %v allocations, want 0", tt.name, n)
		}
	}
}

// FuzzAppendTrade checks that any trade encodes to valid JSON with exact numbers.
func FuzzAppendTrade(f *testing.F) {
	f.Add(int64(705000000000), int64(12000000000), int64(someTime), uint64(1042), "88123", "odd_lot")
	f.Add(int64(-1), int64(1), int64(-1), uint64(0), "\xff\"\\\n\x00\u2028", "")
	f.Fuzz(func(t *testing.T, p, z, ns int64, n uint64, id, condition string) {
		tr := &Trade{Kind: market.KindTrade, Side: market.Sell, Price: market.Price(p), Size: market.Size(z), ID: id, TradeDetails: market.TradeDetails{Conditions: []string{condition}}}
		b := AppendTrade(nil, &Header{Ident: MakeIdent(ggal), N: n, Time: ns, Latency: -1}, tr)
		if !json.Valid(b) {
			t.Fatalf("not JSON: %s", b)
		}
		v, err := ParseJSON(b)
		if err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		if field := v.Get("P"); tr.Price.Exact() {
			if back, err := market.ParsePrice(field.Text); err != nil || back != tr.Price {
				t.Fatalf("price %d came back as %d, %v: %s", p, back, err, b)
			}
		}
	})
}

func BenchmarkAppendTrade(b *testing.B) {
	h := &Header{Ident: MakeIdent(ggal), N: 1042, Time: someTime, Latency: 184200}
	trade := &Trade{Kind: market.KindTrade, Side: market.Buy, Price: price(b, "7050"), Size: size(b, "120"), ID: "88123"}
	buf := make([]byte, 0, 512)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendTrade(buf[:0], h, trade)
	}
}

func BenchmarkAppendBookUpdate(b *testing.B) {
	bids, asks, _, _ := exampleBooks(b)
	h := &Header{Ident: MakeIdent(ggal), N: 5012, Time: someTime, Latency: 184200}
	buf := make([]byte, 0, 512)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendBookUpdate(buf[:0], h, 5011, bids[:1], asks[:1], 3526765731)
	}
}

func BenchmarkChecksum(b *testing.B) {
	bids, asks, _, _ := exampleBooks(b)
	var scratch []byte
	b.ReportAllocs()
	for b.Loop() {
		_, scratch = Checksum(scratch, bids, asks, 10, 2, 0)
	}
}
