package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/market"
)

// hostile are values that no gateway sends in the place of one of its own.
var hostile = []string{
	"-1", "0", "1", "0.5", "1e300", "-1e300", "1e-300", "1e999999999", "9999999999", "9223372037", "9223372036854775807",
	"9223372036854775808", "18446744073709551615", "18446744073709551616", "-9223372036854775808", strings.Repeat("9", 5000),
	"NaN", "Infinity", "null", "true", "false", "[]", "{}", "[[]]", "[null]", `[[1,2],[3]]`, `{"a":1}`, strings.Repeat("[", 20_000),
	`""`, `"text"`, `"-1"`, `"1e300"`, `"\u001b]0;owned\u0007"`, `"\u0000\r\n\u009b"`, `"\ud800"`, `"*|*|*"`, `"GGAL|BYMA|24hs"`, `"AL30|BYMA|CI"`,
	`"9999-99-99T99:99:99.999999999Z"`, `"2031-01-01T00:00:00.000000000Z"`, `"feed_down"`, `"unavailable"`, `"replaced"`, `"internal"`,
	`"` + strings.Repeat("x", 100_000) + `"`,
}

var (
	jsonValue = regexp.MustCompile(`"(?:[^"\\]|\\.)*":?|-?\d+(?:\.\d+)?|true|false|null`)
	jsonList  = regexp.MustCompile(`[\[{][^\[\]{}]*[\]}]`) // without another one inside
)

// malform replaces a value of an answer, removes a member, or damages its bytes.
func malform(r *rand.Rand, text string) string {
	values := jsonValue.FindAllStringIndex(text, -1)
	for range 1 + r.IntN(2) {
		if len(values) == 0 {
			break
		}
		at := values[r.IntN(len(values))]
		if r.IntN(5) == 0 {
			if lists := jsonList.FindAllStringIndex(text, -1); len(lists) > 0 {
				at = lists[r.IntN(len(lists))]
			}
		}
		with := hostile[r.IntN(len(hostile))]
		if strings.HasSuffix(text[at[0]:at[1]], ":") {
			with = `"x":` // the member has another name
		}
		text = text[:at[0]] + with + text[at[1]:]
		values = jsonValue.FindAllStringIndex(text, -1)
	}
	if r.IntN(8) == 0 {
		b := []byte(text)
		if b[r.IntN(len(b))] = byte(r.IntN(256)); r.IntN(2) == 0 {
			b = b[:r.IntN(len(b))]
		}
		text = string(b)
	}
	return text
}

// malformedRows are answers of REST and messages of the stream.
var malformedRows = []string{
	`{"type":"T","S":"GGAL","I":"GGAL|BYMA|24hs","N":1,"T":"2000-01-01T00:00:00.000000000Z","D":5,"P":7050.5,"Z":1,"X":"a","G":"B","C":["odd_lot"]}`,
	`{"type":"C","S":"GGAL","I":"GGAL|BYMA|24hs","N":2,"T":"2000-01-01T00:00:00.000000000Z","P":7050.5,"Z":1,"XN":1,"XP":7051,"XZ":2}`,
	`{"type":"Q","S":"GGAL","I":"GGAL|BYMA|24hs","N":3,"T":"2000-01-01T00:00:00.000000000Z","BP":7049,"BZ":1,"BC":1,"AP":7050,"AZ":2,"AC":2}`,
	`{"type":"O","S":"GGAL","I":"GGAL|BYMA|24hs","N":4,"T":"2000-01-01T00:00:00.000000000Z","R":true,"DL":5,"B":[[7049,1,1]],"A":[[7050.5,2,1]],"K":1}`,
	`{"type":"O","S":"GGAL","I":"GGAL|BYMA|24hs","N":5,"L":4,"T":"2000-01-01T00:00:00.000000000Z","B":[[7049,0]],"A":[],"K":1}`,
	`{"type":"H","S":"GGAL","I":"GGAL|BYMA|24hs","N":6,"T":"2000-01-01T00:00:00.000000000Z","E":"open","Y":"x","U":"2000-01-01T00:00:00.000000000Z"}`,
	`{"type":"D","S":"GGAL","I":"GGAL|BYMA|24hs","N":7,"T":"2000-01-01T00:00:00.000000000Z","OP":1,"HI":2,"LO":1,"LA":2,"CL":1,"TV":10,"EV":20,"TC":2,"VW":1.5,"SE":1,"OI":4}`,
	`{"type":"K","S":"GGAL","I":"GGAL|BYMA|24hs","N":8,"T":"2000-01-01T00:00:00.000000000Z","IV":"1m","TD":"2000-01-01","OP":1,"HI":2,"LO":1,"CL":2,"TV":10,"EV":20,"TC":2,"VW":1.5}`,
}

var malformedMessages = append([]string{
	success, accepted, resumed, caughtUp, `{"action":"ping"}`, `{"action":"pong","time":"2000-01-01T00:00:00.000000000Z"}`,
	`{"type":"Subscription","code":200,"msg":"Subscribed","id":1,"epoch":"e1","position":"e1:1","trades":["GGAL|BYMA|24hs"],"lost":{"trades":{"GGAL|BYMA|24hs":{"from":1,"to":4,"reason":"expired"}}},"rejected":[{"channel":"trades","instrument":"GGAL|BYMA|24hs","code":404,"reason":"unknown_instrument","msg":"No","hint":"x"}],"removed":[{"channel":"quotes","instrument":"GGAL|BYMA|24hs","code":403,"reason":"not_entitled","msg":"No"}],"moved":[{"channel":"quotes","instrument":"GGAL|BYMA|24hs","delay":900}]}`,
	`{"type":"Alive","epoch":"e1","position":"e1:5","last":{"trades":{"GGAL|BYMA|24hs":4},"bars":{"GGAL|BYMA|24hs|1m":2}}}`,
	`{"type":"Warning","code":1,"reason":"token_expiring","msg":"Soon","expires_in":60}`,
	`{"type":"Warning","code":1,"reason":"slow_client","msg":"Slow","behind_ms":500,"queued":10}`,
	`{"type":"Warning","code":1,"reason":"shutting_down","msg":"Again","reconnect_in_ms":500}`,
	`{"type":"Error","code":429,"reason":"rate_limited","msg":"Wait","hint":"x","retry":true,"retry_after":1,"id":1}`,
	`{"type":"Error","code":401,"reason":"token_expired","msg":"Again"}`,
}, malformedRows...)

var malformedAnswers = map[string]string{
	"/auth/token":         `{"success":true,"data":{"access_token":"a","token_type":"Bearer","expires_in":86400,"refresh_token":"r","refresh_expires_in":2592000,"scope":"marketdata:read marketdata:history"}}`,
	"/auth/revoke":        `{"success":true,"data":{}}`,
	"/broker/accounts":    `{"success":true,"data":{"accounts":[{"account_id":"1","number":"1","name":"Ana","type":"x","status":"active","currency":"ARS","currencies":["ARS"],"roles":["owner"],"permissions":["read"],"is_default":true,"created_at":"2000-01-01T00:00:00Z"}]}}`,
	"/market/instruments": `{"success":true,"data":{"instruments":[{"instrument":"GGAL|BYMA|24hs","symbol":"GGAL","market":"BYMA","term":"24hs","settlement_days":1,"name":"G","kind":"stock","isin":"X","currency":"ARS","multiplier":1,"price_decimals":2,"size_decimals":0,"tick":[[0,0.5]],"lot":1,"min_size":1,"status":"open","channels":["trades"]}]}}`,
	"/market/snapshot":    `{"success":true,"data":{"epoch":"e1","position":"e1:1","instruments":[{"instrument":"GGAL|BYMA|24hs","trade":` + malformedRows[0] + `,"quote":` + malformedRows[2] + `,"status":` + malformedRows[5] + `}]}}`,
	"/market/book":        `{"success":true,"data":` + malformedRows[3] + `}`,
	"/market/trades":      pageOf("trades", 0, 1),
	"/market/quotes":      pageOf("quotes", 2),
	"/market/statuses":    pageOf("statuses", 5),
	"/market/bars":        pageOf("bars", 7),
}

const refusedAnswer = `{"success":false,"error":{"code":429,"reason":"rate_limited","msg":"Wait","hint":"x","request_id":"1"}}`

func pageOf(name string, rows ...int) string {
	text := `{"success":true,"data":{"` + name + `":[`
	for i, row := range rows {
		text += strings.Repeat(",", min(i, 1)) + malformedRows[row]
	}
	return text + `],"lost":[{"from":1,"to":4,"start":"2000-01-01T00:00:00Z","end":"2000-01-01T00:00:00Z","reason":"expired"}],"epoch":"e1"}}`
}

// liar is a gateway of which about half of the answers are malformed, at http.RoundTripper.
type liar struct {
	mu    sync.Mutex
	r     *rand.Rand
	count int
}

// RoundTrip implements http.RoundTripper.
func (l *liar) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	path := r.URL.Path
	if strings.HasPrefix(path, "/broker/accounts/") {
		path = "/broker/accounts"
	}
	text, code := malformedAnswers[path], http.StatusOK
	header := http.Header{}
	if l.r.IntN(10) == 0 {
		text = refusedAnswer
		code = []int{100, 204, 302, 400, 401, 403, 429, 500, 503, 999}[l.r.IntN(10)]
		header.Set("Retry-After", []string{"1", "-1", "1e300", "99999999999999999999", "x", "", "\x1b"}[l.r.IntN(7)])
	}
	if l.r.IntN(4) != 0 {
		text = malform(l.r, text)
		l.count++
	}
	return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(bytes.NewReader([]byte(text))), Request: r}, nil
}

// malformedCount returns how many malformed answers a test makes: most in the soak.
func malformedCount(most int) int {
	if os.Getenv("RUEDA_SOAK") != "" {
		return most
	}
	return most / 40
}

// judge reports an error whose text can act on a terminal, or is endless.
func judge(t *testing.T, err error) {
	t.Helper()
	var e *client.Error
	if err == nil {
		return
	}
	text := err.Error()
	if errors.As(err, &e) {
		text += e.Hint + e.RequestID
	}
	if strings.ContainsFunc(text, unicode.IsControl) && !strings.Contains(text, "\n") || len(text) > 10_000 {
		t.Errorf("the error is %.300q", text)
	}
}

// heap returns the bytes of the heap that are in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestMalformedAnswers calls every method that requests something, with answers of which one or two
// values are ones that no gateway sends. With RUEDA_SOAK it makes 60,000.
func TestMalformedAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, most := heap(), malformedCount(60_000)
		l := &liar{r: rand.New(rand.NewPCG(uint64(most), 1))}
		calls, failed := 0, 0
		check := func(err error) {
			if calls++; err != nil {
				failed++
				judge(t, err)
			}
		}
		for l.count < most {
			c, err := client.New([]string{"http://127.0.0.1:1"}, client.Options{Username: "ana", Password: "canary"})
			if err != nil {
				t.Fatal(err)
			}
			c.Wrap(func(http.RoundTripper) http.RoundTripper { return l })
			askEverything(t, c, check)
			c.Close()
		}
		if grown := int64(heap()) - int64(before); grown > 64<<20 {
			t.Errorf("%d MiB are in use", grown>>20)
		}
		t.Logf("%d malformed answers to %d calls, of which %d failed", l.count, calls, failed)
		if failed == 0 || failed == calls {
			t.Error("they are no test")
		}
	})
}

// askEverything calls every method that requests something.
func askEverything(t *testing.T, c *client.Client, check func(error)) {
	ctx := t.Context()
	began := time.Now()
	tokens, err := c.Login(ctx)
	check(err)
	for _, at := range []time.Time{tokens.Expires, tokens.RefreshExpires} {
		if err == nil && (at.Before(began) || time.Until(at) > 3651*24*time.Hour) {
			t.Errorf("a token expires at %v", at)
		}
	}
	for _, err := range c.Accounts(ctx) {
		check(err)
	}
	_, err = c.Account(ctx, "1")
	check(err)
	for in, err := range c.Instruments(ctx, client.Filter{}) {
		check(err)
		_ = fmt.Sprint(in)
	}
	_, err = c.Snapshot(ctx, ggal)
	check(err)
	u, err := c.OrderBook(ctx, ggal, client.AllLevels, time.Time{})
	check(err)
	var book client.Book
	_ = book.Apply(u) // its checksum is wrong
	for _, err := range c.Trades(ctx, ggal, client.Range{}) {
		check(err)
	}
	for _, err := range c.Quotes(ctx, ggal, client.Range{RequireComplete: true}) {
		check(err)
	}
	for _, err := range c.Statuses(ctx, ggal, client.Range{Lost: &[]client.Lost{}}) {
		check(err)
	}
	for _, err := range c.Bars(ctx, ggal, market.Minute, client.Range{}) {
		check(err)
	}
	check(c.Logout(ctx))
}

// TestMalformedMessagesScript sends messages to a stream of which one or two values are ones that
// no gateway sends. With RUEDA_SOAK it sends 40,000.
func TestMalformedMessagesScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, most := heap(), malformedCount(40_000)
		var count, connections atomic.Int64
		f := &fake{t: t, conns: make(chan net.Conn), ended: make(chan struct{}), any: func(c *fakeConn) {
			r := rand.New(rand.NewPCG(uint64(most), uint64(connections.Add(1))))
			if r.IntN(10) == 0 {
				c.send(malform(r, success))
			} else {
				c.begin()
			}
			for range 1 + r.IntN(50) {
				text := malformedMessages[r.IntN(len(malformedMessages))]
				if r.IntN(4) != 0 {
					text = malform(r, text)
					count.Add(1)
				}
				ctx, cancel := context.WithTimeout(c.ctx, time.Second)
				err := c.Write(ctx, websocket.MessageText, []byte(text))
				cancel()
				if err != nil {
					return
				}
			}
			if r.IntN(2) == 0 {
				_ = c.Close(websocket.StatusCode(4000+r.IntN(600)), "\x1b]0;owned\a")
			}
		}}
		server := &http.Server{Handler: f}
		var group sync.WaitGroup
		group.Go(func() { _ = server.Serve(f) })
		c, err := client.New([]string{"http://127.0.0.1:1"}, client.Options{Username: "ana", Password: "canary", Dial: f.dial})
		if err != nil {
			t.Fatal(err)
		}
		set := client.Set{Trades: []string{ggal}, Quotes: []string{ggal}, Books: []string{ggal}, Status: []string{"*|BYMA|*"}, Summary: []string{ggal}, Bars: []string{ggal + "|1m"}}
		if err := c.Subscribe(set); err != nil {
			t.Fatal(err)
		}
		events := 0
		for count.Load() < int64(most) {
			for ev := range c.Events(t.Context()) {
				if events++; events%100 == 0 {
					_, _ = fmt.Sprint(ev), c.Health()
				}
				if change, ok := ev.(client.StateChange); ok {
					judge(t, change.Err)
				}
				if count.Load() >= int64(most) {
					break
				}
			}
		}
		close(f.ended)
		c.Close()
		_ = server.Close()
		group.Wait()
		if grown := int64(heap()) - int64(before); grown > 64<<20 {
			t.Errorf("%d MiB are in use", grown>>20)
		}
		t.Logf("%d malformed messages over %d connections, %d events", count.Load(), connections.Load(), events)
	})
}

// TestNoLifeScript checks that a gateway whose tokens live no time is asked for new ones
// twice a second at most.
func TestNoLifeScript(t *testing.T) {
	f := &fake{life: -1, scripts: []func(*fakeConn){func(c *fakeConn) {
		c.begin()
		c.want(subscribe)
		c.send(accepted)
		c.drain()
	}}}
	var began time.Time
	play(t, f, client.Set{Trades: []string{ggal}}, func(_ *client.Client, ev client.Event) bool {
		if change, ok := ev.(client.StateChange); ok && change.State == client.Live && began.IsZero() {
			began = time.Now()
			time.Sleep(20 * time.Second)
			return false
		}
		return true
	})
	if f.grants < 30 || f.grants > 45 {
		t.Errorf("%d logins and refreshes in 20 s", f.grants)
	}
}
