package rueda_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/ruedahq/rueda/internal/api/asyncapi/asyncapitest"
	"github.com/ruedahq/rueda/internal/api/reason"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// section returns the text of a document below a heading, up to the next heading of any level.
func section(t *testing.T, text, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, "\n"+heading+"\n")
	if !ok {
		t.Fatalf("there is no section %q", heading)
	}
	if end := regexp.MustCompile(`(?m)^#+ `).FindStringIndex(rest); end != nil {
		rest = rest[:end[0]]
	}
	return rest
}

// tableNames returns the words in code font in a column of the tables of a text.
func tableNames(text string, column int) []string {
	names := map[string]bool{}
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, ""), "|")
		if !strings.HasPrefix(line, "| ") || len(cells) <= column {
			continue
		}
		for _, m := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(cells[column], -1) {
			names[m[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// members returns the top-level names of some JSON objects.
func members(t *testing.T, messages ...[]byte) []string {
	t.Helper()
	names := map[string]bool{}
	for _, m := range messages {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(m, &object); err != nil {
			t.Fatalf("%s: %v", m, err)
		}
		for name := range object {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// dataMessages returns, by the heading of its section, each data message with all members.
func dataMessages() map[string][][]byte {
	h := &wire.Header{Ident: wire.MakeIdent(market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "24hs"}).Delayed(9e11), N: 2, Time: 1, Latency: 1}
	one := market.Level{Price: 1, Size: 1, Orders: 1}
	book, more := []market.Level{one}, market.TradeDetails{Conditions: []string{"late"}}
	trade := func(k market.Kind) [][]byte {
		return [][]byte{wire.AppendTrade(nil, h, &wire.Trade{Kind: k, Side: market.Buy, Price: 1, Size: 1, OldPrice: 1, OldSize: 1, RefN: refOf(k), ID: "1", TradeDetails: more})}
	}
	sum := market.Size(1).Sum()
	return map[string][][]byte{
		"### T: trade":      trade(market.KindTrade),
		"### X: cancel":     trade(market.KindCancel),
		"### C: correction": trade(market.KindCorrect),
		"### Q: quote":      {wire.AppendQuote(nil, h, one, one, true)},
		"### O: order book": {wire.AppendBookState(nil, h, 5, book, book, 1), wire.AppendBookUpdate(nil, h, 1, book, book, 1)},
		"### H: trading status": {
			wire.AppendStatus(nil, h, market.Halt, "volatility", 1, true)},
		"### D: summary": {wire.AppendSummary(nil, h, &wire.Figures{Open: 1, High: 1, Low: 1, Last: 1, Volume: sum, Value: sum, Trades: 1,
			PreviousClose: 1, Settlement: 1, OpenInterest: 1}, true)},
		"### K: bar": {wire.AppendBar(nil, h, &wire.Bar{Revised: true, TradingDate: 20261120, Open: 1, High: 1, Low: 1, Close: 1, Volume: sum, Value: sum, Trades: 1})},
	}
}

// refOf returns the N to which a trade message refers.
func refOf(k market.Kind) uint64 {
	if k == market.KindTrade {
		return 0
	}
	return 1
}

// controlMessages returns, by the heading of its section, each control message with all members.
func controlMessages() map[string][][]byte {
	var resumed [wire.NumChannels]map[string]uint64
	var lost [wire.NumChannels]map[string]wire.Range
	var given [wire.NumChannels]bool
	for c := range wire.NumChannels {
		resumed[c], lost[c], given[c] = map[string]uint64{"A|B|C": 1}, map[string]wire.Range{"A|B|C": {From: 1, To: 2, Reason: "ahead"}}, true
	}
	id, last := []byte("1"), &wire.Last{}
	rejected := []wire.Rejection{{Channel: "trades", Instrument: "A", Reason: wire.BadInstrument, Hint: "h"}}
	return map[string][][]byte{
		"### Success": {wire.AppendAuthSuccess(nil, &wire.AuthSuccess{ID: id, Session: "s", Version: "v", Time: 1, Reauth: true})},
		"### Subscription": {wire.AppendSubscription(nil, &wire.Subscription{Msg: "m", ID: id, Epoch: "e", Position: "p", Given: given, Interval: "1m",
			Rejected: rejected, Removed: rejected, Moved: []wire.Moved{{}}, Resumed: resumed, Lost: lost})},
		"### CaughtUp": {wire.AppendCaughtUp(nil, id, "e", "p", &resumed)},
		"### Alive":    {wire.AppendAlive(nil, "e", "p", last)},
		"### Warning":  {wire.AppendTokenExpiring(nil, 1), wire.AppendSlow(nil, "m", 1, 1), wire.AppendShuttingDown(nil, 1)},
		"### Error": {wire.AppendError(nil, &wire.Fault{Reason: wire.SlowClient, Hint: "h", RetryAfter: 1}, id, func(b []byte) []byte {
			return wire.AppendRejected(wire.AppendLast(b, last), rejected)
		})},
		"### Ping and pong": {[]byte(wire.Ping), wire.AppendPong(nil, id, 1)},
		"### Sim":           {wire.AppendSim(nil, id, "speed", "m", market.Scale)},
	}
}

// TestProtocolMessages compares the tables of members in docs/protocol.md with the encoders: each
// message has a section, whose table has exactly the members that the encoder can write, and whose
// examples are such messages.
func TestProtocolMessages(t *testing.T) {
	text := readProtocol(t)
	header := tableNames(section(t, text, "### The header of data messages"), 1)
	data := dataMessages()
	all := maps.Clone(data)
	maps.Copy(all, controlMessages())
	for heading, messages := range all {
		body := section(t, text, heading)
		table, _, _ := strings.Cut(body, "\n```json\n")
		table, _, _ = strings.Cut(table, "\n| phase |")
		want := tableNames(table, 1)
		if data[heading] != nil {
			want = slices.Compact(slices.Sorted(slices.Values(append(want, header...))))
		}
		got := members(t, messages...)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the table has %q, the encoder %q", heading, want, got)
		}
		examples := examplesOf(body)
		if len(examples) == 0 {
			t.Errorf("%s has no example", heading)
		}
		for _, example := range examples {
			for _, name := range members(t, []byte(example)) {
				if !slices.Contains(got, name) {
					t.Errorf("%s: the example has %s, which is no member: %s", heading, name, example)
				}
			}
		}
	}
	headings := regexp.MustCompile(`(?m)^### .*$`).FindAllString(between(text, "\n## 5. Server messages\n", "\n## 6. "), -1)
	if len(headings) != len(all)+1 {
		t.Errorf("section 5 has %d messages, and %d are checked", len(headings)-1, len(all))
	}
}

// TestProtocolActions compares the actions in docs/protocol.md with those of package wire, and
// their members with the schemas of the messages.
func TestProtocolActions(t *testing.T) {
	text := readProtocol(t)
	overview := section(t, text, "## 4. Client actions")
	rows := map[string][]string{} // members by action
	for line := range strings.Lines(overview) {
		if names := tableNames(line, 1); len(names) == 1 {
			rows[names[0]] = tableNames(line, 2)
		}
	}
	actions := slices.Sorted(slices.Values(wire.Actions()))
	if got := slices.Sorted(maps.Keys(rows)); !slices.Equal(got, actions) {
		t.Errorf("the table has the actions %q, the code %q", got, actions)
	}
	schemas := map[string][]string{}
	_, client := asyncapitest.Sides()
	for _, m := range client {
		name := strings.ToLower(strings.TrimSuffix(m.Name, "Request"))
		for _, f := range m.Schema.Fields() {
			if f.Name != "action" {
				schemas[name] = append(schemas[name], f.Name)
			}
		}
		slices.Sort(schemas[name])
	}
	for _, action := range actions {
		want := schemas[strings.ReplaceAll(action, "_", "")]
		switch action {
		case wire.ActionPong: // all are ignored
			want = nil
		case wire.ActionResync: // the others are refused
			want = slices.DeleteFunc(want, func(name string) bool { return slices.Contains([]string{"trades", "bars", "interval"}, name) })
		}
		if !slices.Equal(rows[action], want) {
			t.Errorf("%s has the members %q in the table, %q in its schema", action, rows[action], want)
		}
		body := section(t, text, "### "+action)
		examples := examplesOf(body)
		if len(examples) != 1 {
			t.Errorf("%s has %d examples", action, len(examples))
			continue
		}
		if m, f := wire.ReadMessage([]byte(examples[0]), nil); f != nil || m.Action != action {
			t.Errorf("the example of %s is read as %q, %v", action, m.Action, f)
		}
		if table := tableNames(body, 1); len(table) > 0 && !slices.Equal(table, rows[action]) {
			t.Errorf("%s has the members %q, and in its own table %q", action, rows[action], table)
		}
	}
}

// TestProtocolResume compares the table of the members of resume in docs/protocol.md with the
// schema of a subscribe: names, and which are required.
func TestProtocolResume(t *testing.T) {
	var want, got []string
	_, client := asyncapitest.Sides()
	for _, m := range client {
		for _, f := range m.Schema.Fields() {
			if f.Name != "resume" || m.Name != "Subscribe" {
				continue
			}
			for _, member := range f.Schema.Fields() {
				want = append(want, fmt.Sprint(member.Name, " ", !member.Optional))
			}
		}
	}
	for line := range strings.Lines(section(t, readProtocol(t), "### Resume")) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !slices.Contains([]string{"yes", "no"}, strings.TrimSpace(cells[3])) {
			continue
		}
		for _, name := range tableNames(line, 1) {
			got = append(got, fmt.Sprint(name, " ", strings.TrimSpace(cells[3]) == "yes"))
		}
	}
	slices.Sort(want)
	if slices.Sort(got); len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("the table has %q, the schema %q", got, want)
	}
}

// TestProtocolReasons checks that docs/protocol.md has the table of reasons that package reason
// describes, and the reasons of lost messages.
func TestProtocolReasons(t *testing.T) {
	text := readProtocol(t)
	const begin, end = "<!-- table reasons -->\n", "<!-- /table -->"
	want := "| reason | socket | HTTP | cause | what to do |\n|---|---|---|---|---|\n"
	var lost []string
	for _, e := range reason.All() {
		if e.Lost {
			lost = append(lost, string(e.Word))
		}
		var socket, status string
		if e.Socket {
			on := e.Word.Socket()
			if socket = fmt.Sprintf("%d open", on.Code); on.Closes {
				socket = fmt.Sprintf("%d closes", on.Code)
			}
		}
		if e.Status > 0 {
			status = strconv.Itoa(e.Status)
		}
		if socket == "" && status == "" {
			continue // a Warning, or only of lost messages
		}
		want += strings.ReplaceAll(fmt.Sprintf("| `%s` | %s | %s | %s | %s |", e.Word, socket, status,
			strings.ReplaceAll(e.Cause, "|", `\|`), strings.ReplaceAll(e.Remedy, "|", `\|`)), "|  |", "| |") + "\n"
	}
	got := between(text, begin, end)
	if got != want && *update {
		if err := os.WriteFile(protocolFile, []byte(strings.Replace(text, begin+got+end, begin+want+end, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != want {
		t.Errorf("the table of reasons differs from package reason: go test . -run TestProtocolReasons -update")
	}
	_, table, _ := strings.Cut(section(t, text, "### Resume"), "\n| reason | range |")
	shown := tableNames(between(table, "|---|", "\n\n"), 1)
	if slices.Sort(lost); !slices.Equal(shown, lost) {
		t.Errorf("the table of lost messages has %q, package reason %q", shown, lost)
	}
}

// TestSpanishReasons checks that docs/es/reasons.md has the table of reasons that package reason
// describes in Spanish.
func TestSpanishReasons(t *testing.T) {
	const file, begin, end = "docs/es/reasons.md", "<!-- table reasons -->\n", "<!-- /table -->"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := "| reason | stream | HTTP | causa | qué hacer |\n|---|---|---|---|---|\n"
	for _, e := range reason.All() {
		var socket, status string
		if e.Socket {
			on := e.Word.Socket()
			if socket = strconv.Itoa(on.Code); on.Closes {
				socket += " cierra"
			}
		}
		if e.Status > 0 {
			status = strconv.Itoa(e.Status)
		}
		cause, remedy := reason.Spanish(e.Word)
		row := fmt.Sprintf("| `%s` | %s | %s | %s | %s |", e.Word, socket, status, strings.ReplaceAll(cause, "|", `\|`), remedy)
		want += strings.ReplaceAll(row, "|  |", "| |") + "\n"
	}
	got := between(string(text), begin, end)
	if got != want && *update {
		if err := os.WriteFile(file, []byte(strings.Replace(string(text), begin+got+end, begin+want+end, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != want {
		t.Errorf("the table of reasons differs from package reason: go test . -run TestSpanishReasons -update")
	}
}

// examplesOf returns the lines of the JSON blocks of a text that are messages.
func examplesOf(text string) (lines []string) {
	for _, m := range regexp.MustCompile("(?s)\n```json\n(.*?)```").FindAllStringSubmatch(text, -1) {
		lines = append(lines, strings.Split(strings.TrimSpace(m[1]), "\n")...)
	}
	return lines
}

func between(text, begin, end string) string {
	_, text, _ = strings.Cut(text, begin)
	text, _, _ = strings.Cut(text, end)
	return text
}

func readProtocol(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(protocolFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestLinks checks that the relative links of every document lead to a file of the tree and to a
// heading in it.
func TestLinks(t *testing.T) {
	texts := documents(t)
	anchors := map[string]map[string]bool{}
	for name, text := range texts {
		anchors[name] = headingAnchors(text)
	}
	checked := 0
	for name, text := range texts {
		prose := regexp.MustCompile("`[^`]*`").ReplaceAllString(strings.Join(proseLines(text), "\n"), "")
		for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(prose, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			checked++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			if _, err := os.Stat(filepath.FromSlash(target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, m[1])
			} else if anchor != "" && !anchors[target][anchor] {
				t.Errorf("%s links to %s, and there is no such heading", name, m[1])
			}
		}
	}
	if checked < 150 {
		t.Errorf("checked %d links", checked)
	}
}

// headingAnchors returns the anchors that GitHub gives the headings of a document.
func headingAnchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, line := range proseLines(text) {
		heading := strings.TrimLeft(line, "#")
		if heading == line || !strings.HasPrefix(heading, " ") {
			continue
		}
		heading = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(strings.TrimSpace(heading), "$1")
		anchor := strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			}
			return -1
		}, heading)
		unique := anchor
		for n := 1; all[unique]; n++ {
			unique = anchor + "-" + strconv.Itoa(n)
		}
		all[unique] = true
	}
	return all
}

// TestSpecification checks docs/specification.md: each statement has a place in the contract and
// tests, and the tests exist. A test is named after the folder of its package. A file after it is
// one of its testdata.
func TestSpecification(t *testing.T) {
	text, err := os.ReadFile("docs/specification.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]map[string]bool{} // by folder
	for _, s := range sources(t) {
		if tests[s.dir] == nil {
			tests[s.dir] = map[string]bool{}
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(s.text, -1) {
			tests[s.dir][m[1]] = s.test
		}
	}
	sections := strings.Split(string(text), "\n## ")[1:]
	if len(sections) != 10 {
		t.Fatalf("%d sections, want those of the specification and our decisions", len(sections))
	}
	statements := 0
	for i, section := range sections {
		for line := range strings.Lines(section) {
			cells := strings.Split(strings.TrimSpace(line), " | ")
			if !strings.HasPrefix(line, "| ") || cells[0] == "| statement" || cells[0] == "| left open" {
				continue
			}
			if len(cells) != 3 || !strings.Contains(line, "](protocol.md") {
				t.Errorf("%q has %d cells, or no place in the contract", cells[0], len(cells))
				continue
			}
			if i == 9 { // our decisions
				continue
			}
			statements++
			dir, named := "", 0
			for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[2], -1) {
				word := m[1]
				switch {
				case tests[word] != nil:
					dir = word
				case tests[dir][word]:
					named++
				default:
					if _, err := os.Stat(filepath.Join(dir, "testdata", word)); err != nil || path.Ext(word) == "" {
						t.Errorf("%q: there is no test or file %s in %q", cells[0], word, dir)
					}
				}
			}
			if named == 0 {
				t.Errorf("%q has no test", cells[0])
			}
		}
	}
	if statements < 40 {
		t.Errorf("%d statements", statements)
	}
}
