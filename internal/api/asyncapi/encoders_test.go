package asyncapi_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/api/asyncapi/asyncapitest"
	"github.com/ruedahq/rueda/internal/api/reason"
	"github.com/ruedahq/rueda/internal/api/schema"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// values makes random arguments of encoders. Each optional part is absent in a minimal value, and
// present or absent at random in others.
type values struct {
	*rand.Rand
	minimal bool
}

func (v values) some() bool { return !v.minimal && v.IntN(2) == 0 }

func (v values) text(max int) string {
	letters := []rune(`aZ09 "\é` + "\u2028\n<>&")
	b := []rune{'x'}
	for range v.IntN(max) {
		b = append(b, letters[v.IntN(len(letters))])
	}
	return string(b)
}

func (v values) id() []byte {
	if !v.some() {
		return nil
	}
	if v.IntN(2) == 0 {
		return []byte(fmt.Sprint(v.Int64N(1<<54+1) - 1<<53))
	}
	return wire.AppendString(nil, "é"+v.text(6))
}

func (v values) price() market.Price {
	return market.Price(v.Int64N(2e15) - 1e15)
}

func (v values) size() market.Size { return market.Size(1 + v.Int64N(1e15)) }

func (v values) instrument() market.InstrumentID {
	return market.InstrumentID{
		Symbol: []string{"GGAL", "x-y.z/1", "!#$%&'()+", "<=>?@[]^_`{}~:"}[v.IntN(4)],
		Market: []string{"BYMA", "A.b_c-D"}[v.IntN(2)], Term: []string{"CI", "24hs"}[v.IntN(2)],
	}
}

func (v values) pattern() market.InstrumentID {
	id := v.instrument()
	if v.some() {
		id.Symbol = market.Any
	}
	if v.some() {
		id.Term = market.Any
	}
	return id
}

func (v values) header() *wire.Header {
	h := &wire.Header{Ident: wire.MakeIdent(v.instrument()), N: 1 + v.Uint64N(1<<40), Time: 1 + v.Int64N(4e18), Latency: -1}
	if v.some() {
		h.Ident = h.Ident.Delayed(1e9 * (1 + v.Int64N(86400)))
	}
	if v.some() {
		h.Latency = v.Int64N(1e12)
	}
	return h
}

func (v values) levels(least int) (list []market.Level) {
	for range least + v.IntN(3) {
		l := market.Level{Price: v.price(), Size: v.size()}
		if v.some() {
			l.Orders = 1 + v.Uint32N(100)
		}
		list = append(list, l)
	}
	if v.minimal {
		return nil
	}
	return list
}

func (v values) trade(kind market.Kind) []byte {
	t := wire.Trade{Kind: kind, Price: v.price(), Size: v.size(), OldPrice: v.price(), OldSize: v.size()}
	if v.some() {
		t.Side = []market.Side{market.Buy, market.Sell}[v.IntN(2)]
	}
	if v.some() && kind != market.KindTrade {
		t.RefN = 1 + v.Uint64N(1000)
	}
	if v.some() {
		t.ID = v.text(20)
	}
	if v.some() {
		t.Conditions = []string{"odd_lot", v.text(20)}
	}
	return wire.AppendTrade(nil, v.header(), &t)
}

func (v values) quote() []byte {
	var bid, ask market.Level
	for _, side := range []*market.Level{&bid, &ask} {
		if v.some() {
			*side = market.Level{Price: v.price(), Size: v.size()}
			if v.some() {
				side.Orders = 1 + v.Uint32N(9)
			}
		}
	}
	return wire.AppendQuote(nil, v.header(), bid, ask, v.some())
}

func (v values) status() []byte {
	h, why, until := v.header(), "", int64(0)
	if v.some() {
		h.Ident = wire.MakeIdent(market.InstrumentID{Symbol: market.Any, Market: "BYMA", Term: market.Any})
	}
	if v.some() {
		why = "volatility"
	}
	if v.some() {
		until = 1 + v.Int64N(4e18)
	}
	phase := market.Phase(1 + v.IntN(int(market.Gap)))
	return wire.AppendStatus(nil, h, phase, why, until, v.some())
}

// turnover returns a volume and a value, which are 0 without trades.
func (v values) turnover() (trades uint32, volume, value market.Sum) {
	if !v.some() {
		return 0, volume, value
	}
	p, z := v.price(), v.size()
	return 1 + v.Uint32N(1000), z.Sum(), p.Times(z)
}

func (v values) summary() []byte {
	f := wire.Figures{Open: v.price(), High: v.price(), Low: v.price(), Last: v.price()}
	f.Trades, f.Volume, f.Value = v.turnover()
	if v.some() {
		f.PreviousClose = v.price() | 1
	}
	if v.some() {
		f.Settlement = v.price() | 1
	}
	if v.some() {
		f.OpenInterest = v.size()
	}
	return wire.AppendSummary(nil, v.header(), &f, v.some())
}

func (v values) bar() []byte {
	k := wire.Bar{Interval: market.Interval(v.IntN(int(market.NumIntervals))), Revised: v.some(),
		Open: v.price(), High: v.price(), Low: v.price(), Close: v.price()}
	if v.some() {
		k.TradingDate = market.DateAt(v.Int64N(4e18), time.UTC)
	}
	k.Trades, k.Volume, k.Value = v.turnover()
	return wire.AppendBar(nil, v.header(), &k)
}

func (v values) success() []byte {
	s := wire.AuthSuccess{ID: v.id(), Version: "1.0.0", Time: 1, ExpiresIn: v.IntN(86400), Interval: 20, Timeout: 30,
		Subscriptions: 1, MessagesPerSecond: 2, WorkPerSecond: 6, Work: 7, MessageBytes: 3, MaxMessageBytes: 5, Connections: 4, MaxDepth: -1, Reauth: v.some()}
	if v.some() {
		s.Session, s.MaxDepth = "bot", []int{0, 1, 5, 10, 25}[v.IntN(5)]
	}
	return wire.AppendAuthSuccess(nil, &s)
}

// identifier returns one as the server writes it in lists of a channel.
func (v values) identifier(c wire.Channel) string { return string(c.Append(nil, v.pattern())) }

func (v values) socketReason() wire.Reason {
	words := reason.Words(func(e reason.Entry) bool { return e.Socket })
	return wire.Reason(words[v.IntN(len(words))])
}

func (v values) rejections(hint bool) (list []wire.Rejection) {
	for range v.IntN(3) {
		c := wire.Channel(v.IntN(int(wire.NumChannels)))
		r := wire.Rejection{Channel: c.String(), Instrument: v.identifier(c), Reason: v.socketReason()}
		if hint && v.some() {
			r.Hint, r.Instrument = v.text(30), v.text(30)
		}
		list = append(list, r)
	}
	if v.minimal {
		return nil
	}
	return list
}

func (v values) sequences() (all [wire.NumChannels]map[string]uint64) {
	for c := range all {
		if v.some() {
			all[c] = map[string]uint64{v.identifier(wire.Channel(c)): v.Uint64N(1000), "A|B|C": 0}
		}
	}
	return all
}

func (v values) subscription() []byte {
	s := wire.Subscription{Msg: "Subscribed", ID: v.id(), Epoch: "e", Rejected: v.rejections(true), Removed: v.rejections(false), Resumed: v.sequences()}
	if v.some() {
		s.Position, s.Interval = "e:1", "1m"
	}
	words := reason.Words(func(e reason.Entry) bool { return e.Lost })
	for c := range s.Given {
		if s.Given[c] = v.some(); s.Given[c] {
			s.Lists[c], s.Count[c] = []string{v.identifier(wire.Channel(c))}, v.IntN(100)
		}
		if v.some() {
			l := wire.Range{Reason: words[v.IntN(len(words))]}
			if v.some() {
				l.From = 5
			}
			if v.some() {
				l.To = 9
			}
			s.Lost[c] = map[string]wire.Range{"A|B|C": l}
		}
		if v.some() {
			s.Moved = append(s.Moved, wire.Moved{Channel: wire.Channel(c).String(), Instrument: v.identifier(wire.Channel(c)), Delay: v.IntN(2) * 900})
		}
	}
	return wire.AppendSubscription(nil, &s)
}

func (v values) last() (last wire.Last) {
	for c := range last {
		if v.some() {
			last[c] = []wire.Sequence{{ID: v.instrument(), N: v.Uint64N(9)}}
		}
	}
	return last
}

func (v values) optional(text string) string {
	if v.some() {
		return text
	}
	return ""
}

func (v values) failure() []byte {
	f := &wire.Fault{Reason: v.socketReason(), Hint: v.optional("Try again"), Msg: v.optional("Wrong")}
	if v.some() {
		f.RetryAfter = 1 + v.IntN(60)
	}
	rejected, last := v.rejections(true), v.last()
	return wire.AppendError(nil, f, v.id(), func(b []byte) []byte {
		switch {
		case v.minimal:
		case v.IntN(2) == 0:
			b = wire.AppendRejected(b, rejected)
		default:
			b = wire.AppendLast(b, &last)
		}
		return b
	})
}

// encoders returns for each component of messages of the server a function that encodes one.
func encoders() map[string]func(values) []byte {
	return map[string]func(values) []byte{
		"Trade":      func(v values) []byte { return v.trade(market.KindTrade) },
		"Cancel":     func(v values) []byte { return v.trade(market.KindCancel) },
		"Correction": func(v values) []byte { return v.trade(market.KindCorrect) },
		"Quote":      values.quote,
		"BookSnapshot": func(v values) []byte {
			return wire.AppendBookState(nil, v.header(), []int{0, 1, 5, 10, 25}[v.IntN(5)], v.levels(0), v.levels(0), v.Uint32())
		},
		"BookUpdate": func(v values) []byte {
			bids, asks := v.levels(0), v.levels(0)
			if len(bids) > 0 {
				bids[0].Size = 0
			}
			return wire.AppendBookUpdate(nil, v.header(), 1+v.Uint64N(100), bids, asks, v.Uint32())
		},
		"Status": values.status, "Summary": values.summary, "Bar": values.bar,
		"Success": values.success, "Subscription": values.subscription, "Error": values.failure,
		"CaughtUp": func(v values) []byte {
			resumed := v.sequences()
			return wire.AppendCaughtUp(nil, v.id(), "e", v.optional("e:5"), &resumed)
		},
		"Alive": func(v values) []byte {
			last := v.last()
			return wire.AppendAlive(nil, "e", v.optional("e:5"), &last)
		},
		"TokenExpiring": func(v values) []byte { return wire.AppendTokenExpiring(nil, v.IntN(301)) },
		"SlowClient":    func(v values) []byte { return wire.AppendSlow(nil, v.text(20), v.IntN(5000), v.IntN(100)) },
		"ShuttingDown":  func(v values) []byte { return wire.AppendShuttingDown(nil, v.IntN(5000)) },
		"Sim": func(v values) []byte {
			all := wire.SimFaults()
			speed := market.Size(0)
			if v.some() {
				speed = market.Size(v.Int64N(4)) * market.Scale / 2
			}
			return wire.AppendSim(nil, v.id(), all[v.IntN(len(all))].Name, v.text(50), speed)
		},
		"ServerPing": func(values) []byte { return []byte(wire.Ping) },
		"ServerPong": func(v values) []byte { return wire.AppendPong(nil, v.id(), 1) },
	}
}

// TestEncoders checks each encoder of the server's messages against the document, in both
// directions: every value has documented members alone and all required ones, and some value has
// each documented member.
func TestEncoders(t *testing.T) {
	all := encoders()
	server, _ := asyncapitest.Sides()
	for _, n := range server {
		encode := all[n.Name]
		if encode == nil {
			t.Errorf("no test encodes %s", n.Name)
			continue
		}
		t.Run(n.Name, func(t *testing.T) {
			v := values{Rand: rand.New(rand.NewPCG(1, 2))}
			made := map[string]bool{}
			for i := range 200 {
				v.minimal = i < 3
				m := encode(v)
				if err := asyncapitest.Check(n.Name, m); err != nil {
					t.Fatalf("%v\n%s", err, m)
				}
				if err := asyncapitest.CheckServer(m); err != nil {
					t.Fatalf("%v\n%s", err, m)
				}
				if v.minimal {
					checkMinimal(t, n.Schema, m)
				}
				if err := json.Unmarshal(m, &paths{made: made}); err != nil {
					t.Fatal(err)
				}
			}
			want := map[string]bool{}
			documented(n.Schema, "", want)
			for _, path := range slices.Sorted(maps.Keys(want)) {
				if !made[path] {
					t.Errorf("no value has the member %s", path)
				}
			}
		})
	}
	if len(all) != len(server) {
		t.Errorf("%d encoders, %d components", len(all), len(server))
	}
}

// checkMinimal checks that a message without its optional parts has no optional members.
func checkMinimal(t *testing.T, s *schema.Schema, m []byte) {
	t.Helper()
	var object map[string]json.RawMessage
	if err := json.Unmarshal(m, &object); err != nil {
		t.Fatal(err)
	}
	for _, f := range s.Fields() {
		if _, has := object[f.Name]; has != !f.Optional {
			t.Errorf("%s in the least message: %v\n%s", f.Name, has, m)
		}
	}
}

// paths collects the names of the members of a JSON value, those of nested objects after their
// parent's.
type paths struct {
	made   map[string]bool
	prefix string
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *paths) UnmarshalJSON(b []byte) error {
	var object map[string]json.RawMessage
	var list []json.RawMessage
	if json.Unmarshal(b, &object) == nil {
		for name, value := range object {
			p.made[p.prefix+name] = true
			if err := (&paths{p.made, p.prefix + name + "."}).UnmarshalJSON(value); err != nil {
				return err
			}
		}
	} else if json.Unmarshal(b, &list) == nil {
		for _, item := range list {
			if err := p.UnmarshalJSON(item); err != nil {
				return err
			}
		}
	}
	return nil
}

// documented adds the paths of the members of a schema, with those of nested objects. The names of
// a map are those that the tests use.
func documented(s *schema.Schema, prefix string, want map[string]bool) {
	if to, ok := s.Get("$ref").(string); ok {
		s = component(to[strings.LastIndexByte(to, '/')+1:])
	}
	for _, f := range s.Fields() {
		want[prefix+f.Name] = true
		documented(f.Schema, prefix+f.Name+".", want)
	}
	if items, ok := s.Get("items").(*schema.Schema); ok {
		documented(items, prefix, want)
	}
	if of, ok := s.Get("additionalProperties").(*schema.Schema); ok {
		nested := map[string]bool{}
		documented(of, "", nested)
		for path := range nested {
			want[prefix+"A|B|C."+path] = true
		}
	}
}

// TestAllEncoders checks that TestEncoders knows each function of package wire that appends a
// message of the stream.
func TestAllEncoders(t *testing.T) {
	text, err := os.ReadFile("encoders_test.go")
	if err != nil {
		t.Fatal(err)
	}
	// Files whose functions append parts of messages, lines of feeds, or bodies of REST.
	others := []string{"json.go", "line_append.go", "msgpack.go", "oauth.go", "position.go", "rest.go", "time.go", "credentials.go"}
	parts := []string{"AppendText", "AppendStrings"}
	names, err := os.ReadDir("../../../wire")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, f := range names {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") || slices.Contains(others, f.Name()) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), "../../../wire/"+f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Append") || slices.Contains(parts, fn.Name.Name) {
				continue
			}
			found++
			if !strings.Contains(string(text), "wire."+fn.Name.Name+"(") {
				t.Errorf("%s: TestEncoders does not call %s", f.Name(), fn.Name.Name)
			}
		}
	}
	if found < 18 {
		t.Errorf("%d encoders", found)
	}
}
