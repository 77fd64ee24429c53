package session_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/wire"
)

// TestPricesOfMessages checks what messages cost, in units.
func TestPricesOfMessages(t *testing.T) {
	x := newTill(t)
	p := func(name string, n int) int { return int(float64(n) * session.Prices()[name]) }
	list, n := x.list(100), 100
	message, ids := p("message", 1), p("identifier", n)
	set := func(n int) int { return p("set", n) }
	snapshots := p("snapshot", n) + p("level", (2*5*n))
	sized := func(msg string) int { return p("byte", max(0, len(msg)-2048)) }
	epoch, position := epochOf(x), positionOf(x)
	from0 := `{"action":"subscribe","trades":` + list + `,"resume":{"epoch":"` + epoch + `","trades":{` + strings.ReplaceAll(strings.Trim(list, "[]"), `",`, `":0,`) + `:0}}}`
	for _, c := range []struct {
		name, send string
		want       int
	}{
		{"ping", `{"action":"ping"}`, 0},
		{"usual pong", `{"action":"pong"}`, 0},
		{"ping of 1,000 more values", `{"action":"ping","x":[` + strings.Repeat("0,", 999) + `0]}`, p("value", 1003-16)},
		{"pong of 1,000 more values", `{"action":"pong","x":[` + strings.Repeat("0,", 999) + `0]}`, p("value", 1003-16)},
		{"no JSON, after 1,000 values", `[` + strings.Repeat("0,", 999) + `!`, p("value", 1001-16)},
		{"a long text", `{"action":"ping","x":"` + strings.Repeat("x", 10_000) + `"}`, p("byte", 10_000+24-2048)},
		{"100 trades", `{"action":"subscribe","trades":` + list + `}`, message + ids + p("added", n-1) + set(n)},
		{"the same", `{"action":"subscribe","trades":` + list + `}`, message + ids + set(n)},
		{"the set", `{"action":"subscriptions"}`, message + ids + set(n)},
		{"remove 100", `{"action":"unsubscribe","trades":` + list + `}`, message + ids + p("removed", n)},
		{"100 quotes", `{"action":"subscribe","quotes":` + list + `}`, message + ids + p("added", n) + p("snapshot", n) + set(n)},
		{"100 conflated", `{"action":"subscribe","quotes":` + list + `,"conflate":"1s"}`, message + ids + p("moved", n) + p("snapshot", n) + set(n)},
		{"resync", `{"action":"resync","quotes":` + list + `}`, message + ids + p("snapshot", n) + set(n)},
		{"replace by 100 books", `{"action":"subscribe","replace":true,"order_book":` + list + `}`, message + ids + p("added", n) + snapshots + p("removed", n) + set(n)},
		{"all levels", `{"action":"subscribe","order_book":` + list + `,"depth":0}`,
			message + ids + p("moved", n) + p("snapshot", n) + p("level", 2*pricedDeep*pricedLevels+2*(n-pricedDeep)*10) + set(n)},
		{"nothing", `{"action":"subscribe","replace":true,"trades":[]}`, message + p("removed", n)},
		{"100 from 0", from0, sized(from0) + message + ids + p("added", n) + p("resumed", n) + set(n) + p("row", n*pricedRows)},
		{"nothing again", `{"action":"subscribe","replace":true,"trades":[]}`, message + p("removed", n)},
		{"a pattern", `{"action":"subscribe","trades":["*|BYMA|*"],"resume":{"epoch":"` + epoch + `","position":"` + position + `"}}`,
			message + 1 + p("added", 1) + p("looked", pricedInstruments)},
		{"one under it", `{"action":"subscribe","trades":["W0|BYMA|24hs"]}`, message + 1 + p("added", 1)},
		{"no pattern", `{"action":"unsubscribe","trades":["*|BYMA|*"]}`, message + 1 + p("removed", 1)},
		{"a pattern of quotes", `{"action":"subscribe","quotes":["*|BYMA|*"]}`, message + 1 + p("added", 1) + p("snapshot", pricedInstruments)},
		{"100 unknown", `{"action":"subscribe","trades":` + strings.ReplaceAll(list, "W", "V") + `}`, message + ids + p("hint", 10)},
		{"100 misspelt", `{"action":"subscribe","trades":` + strings.ReplaceAll(list, "|", "-") + `}`, message + ids},
	} {
		if _, units := x.send(c.send); units < c.want-3 || units > c.want+3 { // divisions round
			t.Errorf("%s costs %d units, want %d", c.name, units, c.want)
		}
	}
}

// crowd is the connections of one user, each of whose clients subscribes to as many identifiers as
// it may.
type crowd struct {
	*till
	sessions        [8]session.Session
	epoch, position string
}

func newCrowd(t *testing.T) *crowd {
	c := &crowd{till: newTill(t)}
	c.epoch, c.position = epochOf(c.till), positionOf(c.till)
	c.sess.PeerGone()
	c.now = c.now.Add(time.Hour)
	id := c.identity(c.now)
	c.env.Known = func(string) (*session.Identity, *wire.Fault, bool) { return id, nil, true }
	return c
}

// open authenticates all connections, as clients do that were cut off.
func (c *crowd) open() {
	for i := range c.sessions {
		s := &c.sessions[i]
		s.Start(c.env, session.Peer{}, c.shard, c.till, c.now)
		c.sess = s
		c.ask(`{"action":"auth_token","token":"t","session":"`+fmt.Sprint("s", i)+`"}`, `"Success"`)
	}
}

// ask sends a message of the present connection and reads the answer and all data.
func (c *crowd) ask(msg, want string) {
	c.t.Helper()
	c.handle(msg)
	if got := c.drain(); !strings.Contains(got, want) {
		c.t.Fatalf("%.60s: %s", msg, got)
	}
}

// TestHonestClientsNeverWait checks that a user with as many connections and subscriptions as the
// default limits allow never waits for the allowance of work. All connections authenticate,
// subscribe and resume three times at once, with rows to replay.
func TestHonestClientsNeverWait(t *testing.T) {
	for name, again := range map[string]string{"reconnects": "open", "unsubscribes": "unsubscribe", "replaces": "replace"} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t)
			part := pricedInstruments / 4
			message := func(from int, channels ...string) string {
				list := `["` + strings.Join(c.names[from:from+part], `","`) + `"]`
				seen := strings.ReplaceAll(strings.Trim(list, "[]"), `",`, `":0,`) + ":0"
				var lists, n []string
				for _, ch := range channels {
					lists, n = append(lists, `"`+ch+`":`+list), append(n, `"`+ch+`":{`+seen+`}`)
				}
				return strings.Join(lists, ",") + `,"resume":{"epoch":"` + c.epoch + `","position":"` + c.position + `",` + strings.Join(n, ",") + `}}`
			}
			c.open()
			for range 3 {
				if again == "open" {
					for i := range c.sessions {
						c.sessions[i].PeerGone()
					}
					c.open()
				}
				for i := range c.sessions {
					c.sess = &c.sessions[i]
					if again == "unsubscribe" {
						list := `["` + strings.Join(c.names, `","`) + `"]`
						for _, channel := range []string{"trades", "quotes", "order_book"} {
							c.ask(`{"action":"unsubscribe","`+channel+`":`+list+`}`, `"Unsubscribed"`)
						}
					}
					first := `{"action":"subscribe",`
					if again == "replace" {
						c.ask(`{"action":"subscribe","replace":true,"trades":[]}`, `"Subscribed"`)
					}
					c.ask(first+message(0, "trades", "quotes"), `"Subscribed"`)
					c.ask(first+message(part, "trades", "order_book"), `"Subscribed"`)
				}
			}
			if n := c.env.Owed("u", c.now); n > session.WorkBurst {
				t.Errorf("the user owes %d units of %d", n, session.WorkBurst)
			} else {
				t.Logf("the user owes %d units of %d", n, session.WorkBurst)
			}
			for i := range c.sessions {
				c.sessions[i].PeerGone()
			}
		})
	}
}

// TestWideResumesNeverWait checks the same for connections that resume all data of a large market.
func TestWideResumesNeverWait(t *testing.T) {
	s := crowded(t, 10_000)
	epoch, position := s.hub.Position()
	resume := `{"action":"subscribe",` + everything + `,"resume":{"epoch":"` + epoch + `","position":"` + position + `"}}`
	for range 3 {
		sessions := make([]*session.Session, 8)
		for i := range sessions {
			s.connect("u")
			sessions[i] = s.sess
			if s.text(resume); !strings.Contains(s.take()[0], `"Subscribed"`) {
				t.Fatal("refused")
			}
		}
		for _, x := range sessions {
			x.PeerGone()
		}
	}
	if n := s.owed("u"); n > session.WorkBurst/2 {
		t.Errorf("the user owes %d units", n)
	}
}
