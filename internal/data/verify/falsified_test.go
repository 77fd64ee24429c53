package verify

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/market"
)

// falsification changes a right recording in one way.
type falsification struct {
	name    string
	opening bool // of the recording of an opening; otherwise of continuous trading
	do      func(*forger)
	missed  string // why it may not be found; "": it is
}

// falsifications are the kinds of falsifications, by what they change.
var falsifications = []struct {
	name string
	list []falsification
}{
	{"trades, figures and order", trades},
	{"trades, other members", tradeMembers},
	{"quotes", quotes},
	{"books", books},
	{"books, checksums and counts", bookMembers},
	{"bars", barFalsifications},
	{"statuses, head, lines", others},
	{"summaries", summaries},
	{"one of each kind that was missed", kinds},
}

// setter returns a falsification of one message of a type.
func setter(kind, name, value string) func(*forger) {
	return func(f *forger) { f.set(f.one(kind, live), name, value) }
}

func scaled(kind, name string, by, add float64) func(*forger) {
	return func(f *forger) { f.scale(f.one(kind, live), name, by, add) }
}

func without(kind string) func(*forger) { return func(f *forger) { f.remove(f.one(kind, live)) } }
func doubled(kind string) func(*forger) { return func(f *forger) { f.double(f.one(kind, live)) } }
func swapped(kind string) func(*forger) { return func(f *forger) { f.swap(f.one(kind, live)) } }
func noneOf(kind string) func(*forger)  { return func(f *forger) { f.removeAll(kind, live) } }
func moved(kind string, by time.Duration) func(*forger) {
	return func(f *forger) { f.move(f.one(kind, live), by) }
}
func renumbered(kind string) func(*forger) { return scaled(kind, "N", 1, 5) }

// inverted exchanges the aggressors of trades.
func inverted(f *forger, list []int) {
	for _, i := range list {
		switch member(f.lines[i].text, "G") {
		case "B":
			f.set(i, "G", `"S"`)
		case "S":
			f.set(i, "G", `"B"`)
		}
	}
}

// busy accepts quotes and updates that have a bid and an ask.
func twoSided(text string) bool {
	return live(text) && strings.Contains(text, `"BP"`) && strings.Contains(text, `"AP"`)
}

var trades = []falsification{
	{name: "price", do: scaled("T", "P", 1, 3)},
	{name: "size", do: scaled("T", "Z", 1, 1)},
	{name: "missing", do: without("T")},
	{name: "doubled", do: doubled("T")},
	{name: "swapped", do: swapped("T")},
	{name: "price and size exchanged with the next one", do: func(f *forger) {
		i := f.one("T")
		for member(f.lines[i].text, "Z") == member(f.lines[f.next(i)].text, "Z") || timeIn(f.lines[i].text).Second() == timeIn(f.lines[f.next(i)].text).Second() {
			i = f.one("T")
		}
		f.exchange(i, f.next(i), "P", "Z")
	}},
	{name: "renumbered", do: renumbered("T")},
	{name: "a second later", do: moved("T", time.Second)},
	{name: "an hour earlier", do: moved("T", -time.Hour)},
	{name: "price of ten times", do: scaled("T", "P", 10, 0)},
	{name: "size of ten times", do: scaled("T", "Z", 10, 0)},
	{name: "negative size", do: scaled("T", "Z", -1, 0)},
	{name: "off the tick", do: scaled("T", "P", 1, 0.01)},
	{name: "5 % off", do: scaled("T", "P", 1.05, 0)},
}

var tradeMembers = []falsification{
	{name: "all aggressors inverted", do: func(f *forger) { inverted(f, f.all("T")) }},
	{name: "one aggressor inverted", do: func(f *forger) { inverted(f, []int{f.one("T")}) },
		missed: "a single trade may have been agreed away from the book"},
	{name: "all aggressors buyers", do: func(f *forger) {
		for _, i := range f.all("T") {
			if member(f.lines[i].text, "G") == "S" {
				f.set(i, "G", `"B"`)
			}
		}
	}, missed: "about as many trades agree with the book as do not, which a note says"},
	{name: "one aggressor missing", do: setter("T", "G", ""), missed: "the member is optional"},
	{name: "id of another trade", do: func(f *forger) {
		i := f.one("T")
		f.set(f.next(i), "X", strconv.Quote(member(f.lines[i].text, "X")))
	}},
	{name: "condition of an auction", do: func(f *forger) {
		i := f.one("T")
		f.lines[i].text = strings.TrimSuffix(f.lines[i].text, "}") + `,"C":["opening_auction"]}`
	}, missed: "conditions are words of the market"},
	{name: "symbol", do: setter("T", "S", `"XXXX"`)},
	{name: "all missing", do: noneOf("T")},
	{name: "size, with its bars", do: func(f *forger) {
		i := f.one("T")
		f.scale(i, "Z", 1, 1)
		f.repairBars(timeIn(f.lines[i].text))
	}},
}

var quotes = []falsification{
	{name: "price", do: scaled("Q", "BP", 1, -1)},
	{name: "size", do: scaled("Q", "AZ", 1, 1)},
	{name: "missing", do: without("Q")},
	{name: "missing at an opening", opening: true, do: without("Q")},
	{name: "doubled", do: doubled("Q")},
	{name: "swapped", do: swapped("Q")},
	{name: "sides exchanged", do: func(f *forger) {
		i := f.one("Q", twoSided)
		for a, b := range map[string]string{"BP": "AP", "BZ": "AZ"} {
			x, y := member(f.lines[i].text, a), member(f.lines[i].text, b)
			if x != y {
				f.set(i, a, y)
				f.set(i, b, x)
			}
		}
	}},
	{name: "an hour earlier", do: moved("Q", -time.Hour)},
	{name: "renumbered", do: renumbered("Q")},
	{name: "bid at the ask", do: func(f *forger) { i := f.one("Q", twoSided); f.set(i, "BP", member(f.lines[i].text, "AP")) }},
	{name: "ask at the bid", do: func(f *forger) { i := f.one("Q", twoSided); f.set(i, "AP", member(f.lines[i].text, "BP")) }},
	{name: "orders at the bid", do: scaled("Q", "BC", 1, 40)},
	{name: "orders at the ask", do: scaled("Q", "AC", 1, 40)},
	{name: "all missing", do: noneOf("Q")},
	{name: "all missing, and the one of the beginning", do: func(f *forger) { f.removeAll("Q") },
		missed: "a source may have no quotes; a note says that there are none"},
	{name: "sides exchanged in an auction", opening: true, do: func(f *forger) {
		i := f.one("Q", between(time.Time{}, opened), func(text string) bool { return member(text, "BZ") != member(text, "AZ") })
		x, y := member(f.lines[i].text, "BZ"), member(f.lines[i].text, "AZ")
		f.set(i, "BZ", y)
		f.set(i, "AZ", x)
	}, missed: "how a market computes an indicative price is not known"},
}

// opened is when continuous trading begins in the recording of an opening.
var opened = time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)

var books = []falsification{
	{name: "missing", do: without("O")},
	{name: "doubled", do: doubled("O")},
	{name: "swapped", do: swapped("O")},
	{name: "size", do: levelSize(true)},
	{name: "price", do: func(f *forger) {
		i := f.one("O", update)
		b, _ := f.book(i)
		bid, _ := b.Best(market.Buy)
		f.lines[i].text = strings.Replace(f.lines[i].text, `"B":[[`, `"B":[[`+(bid.Price+f.def.TickSize(bid.Price)/2).String()+`,5,1],[`, 1)
	}},
	{name: "checksum", do: scaled("O", "K", 0, 1)},
	{name: "missing, with L repaired", do: func(f *forger) {
		i := f.one("O", update)
		f.set(f.next(i), "L", member(f.lines[i].text, "L"))
		f.remove(i)
	}},
	{name: "a bid far above", do: func(f *forger) {
		i := f.one("O", update)
		b, _ := f.book(i)
		ask, _ := b.Best(market.Sell)
		f.addBid(i, ask.Price*2)
	}},
	{name: "crossed for one update", do: func(f *forger) { f.cross(f.one("O", update), true) }},
	{name: "crossed for one update without K", do: func(f *forger) { f.cross(f.one("O", update), false) }},
	{name: "an hour earlier", do: moved("O", -time.Hour)},
}

// levelSize changes the size of a level in an update.
func levelSize(checksum bool) func(*forger) {
	return func(f *forger) {
		i := f.one("O", update, func(text string) bool { return !strings.Contains(text, ",0]") })
		text := f.lines[i].text
		from := strings.Index(text, `"B":[[`) + len(`"B":[[`)
		from += strings.Index(text[from:], ",") + 1
		f.lines[i].text = text[:from] + "7" + text[from:]
		if !checksum {
			f.set(i, "K", "")
		}
	}
}

var bookMembers = []falsification{
	{name: "one checksum missing", do: setter("O", "K", "")},
	{name: "all checksums missing", do: func(f *forger) {
		for _, i := range f.all("O") {
			f.set(i, "K", "")
		}
	}},
	{name: "orders of the best bid", do: func(f *forger) { f.orders(f.one("O", update, f.best)) }},
	{name: "size without checksum", do: levelSize(false)},
	{name: "crossed in an auction without checksum", opening: true, do: func(f *forger) {
		f.cross(f.one("O", update, between(time.Time{}, opened)), false)
	}},
}

// best accepts updates of the best bid, which an update with one more bid would not replace.
func (f *forger) best(text string) bool {
	i := slices.IndexFunc(f.lines, func(l sampleLine) bool { return l.text == text })
	b, _ := f.book(i)
	bid, _ := b.Best(market.Buy)
	return bid.Orders > 0 && strings.Contains(text, fmt.Sprintf(`"B":[[%s,%s,%d]`, bid.Price, bid.Size, bid.Orders))
}

// orders changes the number of orders of the best bid.
func (f *forger) orders(i int) {
	b, _ := f.book(i)
	bid, _ := b.Best(market.Buy)
	was := fmt.Sprintf(`[%s,%s,%d]`, bid.Price, bid.Size, bid.Orders)
	f.lines[i].text = strings.Replace(f.lines[i].text, was, fmt.Sprintf(`[%s,%s,%d]`, bid.Price, bid.Size, bid.Orders+3), 1)
}

// second accepts bars of a second.
func second(text string) bool {
	return strings.Contains(text, `"IV":"1s"`) && member(text, "R") == "false"
}

func barScaled(name string) func(*forger) {
	return func(f *forger) { f.scale(f.one("K", second), name, 1, 1) }
}

// barMoved moves a bar to the next second, which has a bar too.
func barMoved(f *forger) {
	f.move(f.one("K", second, func(text string) bool {
		return len(f.all("K", second, func(next string) bool { return timeIn(next).Equal(timeIn(text).Add(time.Second)) })) > 0
	}), time.Second)
}

var barFalsifications = []falsification{
	{name: "open", do: barScaled("OP")},
	{name: "high", do: barScaled("HI")},
	{name: "low", do: barScaled("LO")},
	{name: "close", do: barScaled("CL")},
	{name: "volume", do: barScaled("TV")},
	{name: "turnover", do: barScaled("EV")},
	{name: "average", do: barScaled("VW")},
	{name: "missing", do: without("K")},
	{name: "one second later", do: barMoved},
	{name: "revised", do: func(f *forger) { f.set(f.one("K", second), "R", "true") }},
	{name: "all missing", do: noneOf("K")},
}

var others = []falsification{
	{name: "open for auction", opening: true, do: openForAuction},
	{name: "status missing", opening: true, do: func(f *forger) { f.remove(f.one("H", live, f.followed)) }},
	{name: "status an hour earlier", opening: true, do: moved("H", -time.Hour)},
	{name: "price decimals in the head", do: func(f *forger) { f.editHead(func(in map[string]any) { in["price_decimals"] = 3 }) }},
	{name: "tick in the head", do: func(f *forger) { f.editHead(func(in map[string]any) { in["tick"] = [][]float64{{0, 0.7}} }) }},
	{name: "receive time", do: func(f *forger) { f.lines[f.one("T")].at -= int64(time.Hour) }},
	{name: "a line cut", do: func(f *forger) { i := f.one("T"); f.lines[i].text = f.lines[i].text[:40] }},
	{name: "a line twice", do: doubled("O")},
}

// followed accepts messages after which another one of their type comes.
func (f *forger) followed(text string) bool {
	list := f.all(text[len(`{"type":"`):][:1])
	return text != f.lines[list[len(list)-1]].text
}

// openForAuction states the auction of the instrument and of its market as open.
func openForAuction(f *forger) {
	for i := range f.lines {
		f.lines[i].text = strings.Replace(f.lines[i].text, `"E":"auction"`, `"E":"open"`, 1)
	}
}

var summaries = []falsification{
	{name: "volume", do: scaled("D", "TV", 10, 0)},
	{name: "high", do: scaled("D", "HI", 1, 1)},
	{name: "last", do: scaled("D", "LA", 1, 1)},
	{name: "number of trades", do: scaled("D", "TC", 1, 1)},
	{name: "all missing", do: noneOf("D")},
}

var kinds = []falsification{
	{name: "a locked quote", do: quotes[9].do},
	{name: "a missing checksum", do: bookMembers[0].do},
	{name: "a missing channel", do: noneOf("K")},
	{name: "a wrong summary", do: scaled("D", "EV", 1, 5)},
	{name: "wrong aggressors", do: tradeMembers[0].do},
	{name: "a price off the tick", do: func(f *forger) {
		i := f.one("O", update)
		b, _ := f.book(i)
		bid, _ := b.Best(market.Buy)
		f.addBid(i, bid.Price-f.def.TickSize(bid.Price)/2)
		f.checksums(i, 2)
	}},
	{name: "a bar in the place of another", do: barMoved},
}

// TestFalsified falsifies recordings of the simulated exchange in each known way, and prints which
// ways are found. The recordings themselves are right.
func TestFalsified(t *testing.T) { falsified(t, 1) }

// TestFalsifiedE2E does the same with other recordings.
func TestFalsifiedE2E(t *testing.T) {
	for seed := range uint64(5) {
		falsified(t, seed+2)
	}
}

func falsified(t *testing.T, seed uint64) {
	def := market.Instrument{ID: instrumentOf("FAKE|SIM|CI").ID, PriceDecimals: 2, Ticks: []market.Tick{{Step: market.Scale / 2}}}
	opening := def
	opening.ID = instrumentOf("GGAL|BYMA|24hs").ID
	right := recorded(t, seed, 3*time.Minute, time.Minute, 10, def.ID.String())
	open := recorded(t, seed, 34*time.Minute, 3*time.Minute, 10, opening.ID.String())
	for _, x := range []*sample{right, open} {
		if r := verified(t, x.bytes()); r.Wrong() > 0 || r.Result(Quote).Judged < 300 {
			t.Fatalf("a right recording:\n%s", text(r))
		}
	}
	made, found := 0, 0
	var b strings.Builder
	fmt.Fprintf(&b, "%-34s %5s %5s  missed\n", "falsified", "made", "found")
	for _, kind := range falsifications {
		n := 0
		var missed []string
		for i := range kind.list {
			x := &kind.list[i]
			f := &forger{sample: right.clone(), t: t, random: rand.New(rand.NewPCG(seed, uint64(i))), def: &def}
			if x.opening {
				f.sample, f.def = open.clone(), &opening
			}
			x.do(f)
			r := verified(t, f.bytes())
			is := r.Wrong() > 0
			if is {
				n++
			} else {
				missed = append(missed, x.name+": "+cmp.Or(x.missed, "not found"))
			}
			if !is && x.missed == "" {
				t.Errorf("seed %d: %s, %s is not found:\n%s", seed, kind.name, x.name, text(r))
			}
		}
		made, found = made+len(kind.list), found+n
		fmt.Fprintf(&b, "%-34s %5d %5d  %s\n", kind.name, len(kind.list), n, strings.Join(missed, "; "))
	}
	t.Logf("%s%-34s %5d %5d", b.String(), "all", made, found)
	if found*100 < made*92 {
		t.Errorf("%d of %d are found", found, made)
	}
}
