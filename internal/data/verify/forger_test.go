package verify

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// forger falsifies a recording.
type forger struct {
	*sample
	t      *testing.T
	random *rand.Rand
	def    *market.Instrument
}

// all returns the indexes of the messages of a type that a function accepts.
func (f *forger) all(kind string, accept ...func(string) bool) (list []int) {
	for i := range f.lines {
		text := f.lines[i].text
		if !strings.HasPrefix(text, `{"type":"`+kind+`"`) || !strings.Contains(text, f.def.ID.String()) {
			continue
		}
		if !slices.ContainsFunc(accept, func(a func(string) bool) bool { return !a(text) }) {
			list = append(list, i)
		}
	}
	return list
}

// one returns one of them, if possible from the middle half of the recording.
func (f *forger) one(kind string, accept ...func(string) bool) int {
	list := f.all(kind)
	quarter := len(list) / 4
	order := list[quarter : len(list)-quarter]
	f.random.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
	for _, i := range slices.Concat(order, list[:quarter], list[len(list)-quarter:]) {
		if !slices.ContainsFunc(accept, func(a func(string) bool) bool { return !a(f.lines[i].text) }) {
			return i
		}
	}
	f.t.Fatalf("no message %s to falsify", kind)
	return 0
}

// live accepts messages that are no snapshots.
func live(text string) bool { return !strings.Contains(text, `"R":true`) }

// between accepts messages with a time in a range.
func between(from, to time.Time) func(string) bool {
	return func(text string) bool { t := timeIn(text); return !t.Before(from) && t.Before(to) }
}

func timeIn(text string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, member(text, "T"))
	return t
}

func memberPattern(name string) *regexp.Regexp {
	return regexp.MustCompile(`,"` + name + `":("[^"]*"|[-0-9.]+|true|false)`)
}

// member returns a member of a message, without quotation marks.
func member(text, name string) string {
	m := memberPattern(name).FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	return strings.Trim(m[1], `"`)
}

// set replaces a member of a message. The value is JSON; "" removes the member.
func (f *forger) set(i int, name, value string) {
	text := &f.lines[i].text
	p := memberPattern(name)
	if !p.MatchString(*text) {
		f.t.Fatalf("no %s in %s", name, *text)
	}
	with := ""
	if value != "" {
		with = `,"` + name + `":` + value
	}
	if out := p.ReplaceAllLiteralString(*text, with); out != *text {
		*text = out
		return
	}
	f.t.Fatalf("%s of %s is %s already", name, *text, value)
}

// scale multiplies a price or size in a message and adds to it.
func (f *forger) scale(i int, name string, by, add float64) {
	v, err := strconv.ParseFloat(member(f.lines[i].text, name), 64)
	if err != nil {
		f.t.Fatal(err)
	}
	f.set(i, name, strconv.FormatFloat(v*by+add, 'f', -1, 64))
}

// move adds to the time of a message.
func (f *forger) move(i int, by time.Duration) {
	f.set(i, "T", string(wire.AppendTime([]byte{}, timeIn(f.lines[i].text).Add(by).UnixNano())))
}

func (f *forger) remove(i int) { f.lines = slices.Delete(f.lines, i, i+1) }

// removeAll removes the messages of a type.
func (f *forger) removeAll(kind string, accept ...func(string) bool) {
	list := f.all(kind, accept...)
	for k := len(list) - 1; k >= 0; k-- {
		f.remove(list[k])
	}
}

func (f *forger) double(i int) { f.lines = slices.Insert(f.lines, i, f.lines[i]) }

// next returns the index of the next message of the same type.
func (f *forger) next(i int) int {
	kind := f.lines[i].text[:12]
	for k := i + 1; k < len(f.lines); k++ {
		if f.lines[k].text[:12] == kind {
			return k
		}
	}
	f.t.Fatal("no message follows")
	return 0
}

// swap exchanges a message with the next one of its type, which keep their receive times.
func (f *forger) swap(i int) {
	k := f.next(i)
	f.lines[i].text, f.lines[k].text = f.lines[k].text, f.lines[i].text
}

// exchange exchanges the values of members.
func (f *forger) exchange(i, k int, names ...string) {
	for _, name := range names {
		a, b := member(f.lines[i].text, name), member(f.lines[k].text, name)
		if a != b {
			f.set(i, name, b)
			f.set(k, name, a)
		}
	}
}

// book returns the book after a message.
func (f *forger) book(i int) (b market.Book, m stream.Message) {
	d := stream.Decoder{Lenient: true}
	for _, l := range f.lines[:i+1] {
		if !strings.HasPrefix(l.text, `{"type":"O"`) {
			continue
		}
		if err := d.Decode([]byte(l.text), &m); err != nil {
			f.t.Fatal(err)
		}
		if m.Snapshot {
			b.Reset()
		}
		for k, side := range [2][]market.Level{m.Bids, m.Asks} {
			for _, level := range side {
				b.Set([2]market.Side{market.Buy, market.Sell}[k], level)
			}
		}
	}
	return b, m
}

// checksums repairs K from a message on, for n messages.
func (f *forger) checksums(i, n int) {
	for ; n > 0; n-- {
		b, _ := f.book(i)
		k, _ := wire.Checksum(nil, b.Append(nil, market.Buy, 10), b.Append(nil, market.Sell, 10), 10, f.def.PriceDecimals, f.def.SizeDecimals)
		if text := strconv.FormatUint(uint64(k), 10); text != member(f.lines[i].text, "K") {
			f.set(i, "K", text)
		}
		if n > 1 {
			i = f.next(i)
		}
	}
}

// update accepts updates of both sides, so that levels can be added.
func update(text string) bool { return live(text) && strings.Contains(text, `"B":[`) && live(text) }

// addBid adds a bid to an update, and removes it with the next one.
func (f *forger) addBid(i int, price market.Price) {
	level := "[" + price.String() + ",7,1]"
	f.lines[i].text = strings.Replace(f.lines[i].text, `"B":[`, `"B":[`+level+",", 1)
	next := &f.lines[f.next(i)].text
	gone := "[" + price.String() + ",0]"
	if strings.Contains(*next, `"B":[`) {
		*next = strings.Replace(*next, `"B":[`, `"B":[`+gone+",", 1)
	} else {
		*next = strings.Replace(*next, `"A":[`, `"B":[`+gone+`],"A":[`, 1)
	}
}

// cross adds a bid above the best ask to one update. K stays right if it is there.
func (f *forger) cross(i int, checksum bool) {
	b, _ := f.book(i)
	ask, _ := b.Best(market.Sell)
	f.addBid(i, ask.Price+2*f.def.TickSize(ask.Price))
	if checksum {
		f.checksums(i, 2)
	} else {
		f.set(i, "K", "")
	}
}

// repairBars makes the bars that contain a time equal to the trades.
func (f *forger) repairBars(at time.Time) {
	for _, i := range f.all("K") {
		from := timeIn(f.lines[i].text)
		length, _ := time.ParseDuration(member(f.lines[i].text, "IV"))
		if at.Before(from) || !at.Before(from.Add(length)) {
			continue
		}
		var volume, value market.Sum
		for _, k := range f.all("T", between(from, from.Add(length))) {
			p, err1 := market.ParsePrice(member(f.lines[k].text, "P"))
			z, err2 := market.ParseSize(member(f.lines[k].text, "Z"))
			if err1 != nil || err2 != nil {
				f.t.Fatal(err1, err2)
			}
			volume, value = volume.Add(z.Sum()), value.Add(p.Times(z))
		}
		for name, text := range map[string][]byte{
			"TV": volume.Append(nil, market.SizeDecimals), "EV": value.Append(nil, market.ValueDecimals), "VW": market.AppendAverage(nil, value, volume),
		} {
			if member(f.lines[i].text, name) != string(text) {
				f.set(i, name, string(text))
			}
		}
	}
}

// editHead changes the definition of the instrument in the first line.
func (f *forger) editHead(edit func(map[string]any)) {
	var head map[string]any
	d := json.NewDecoder(strings.NewReader(f.head))
	d.UseNumber()
	if err := d.Decode(&head); err != nil {
		f.t.Fatal(err)
	}
	edit(head["instruments"].([]any)[0].(map[string]any))
	b, err := json.Marshal(head)
	if err != nil {
		f.t.Fatal(err)
	}
	// the format is recognised by its first member
	f.head = `{"rueda":"recording",` + strings.Replace(string(b[1:]), `"rueda":"recording",`, "", 1)
}
