package rest_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/session"
)

// TestDelayedHeadIsHidden resumes delayed data at numbers and positions up to, at and beyond what
// exists in real time. All answers are the same except for the number of the client itself. None
// shows the position of real time, and all streams go on when the delay has passed.
func TestDelayedHeadIsHidden(t *testing.T) {
	t.Parallel()
	rights := tableRights()[9:10]
	if rights[0].name != "all, delayed" {
		t.Fatal(rights[0].name)
	}
	synctest.Test(t, func(t *testing.T) {
		w, stop := newRightsWorld(t, rights)
		defer stop()
		u := &tableUser{right: &rights[0]}
		u.access, _ = w.login(t, "user0")
		epoch, live := w.hub.Position()
		var at uint64
		if _, err := fmt.Sscanf(strings.TrimPrefix(live, epoch+":"), "%d", &at); err != nil {
			t.Fatal(err)
		}
		// The newest trade is 3. The delayed data has come to 2.
		streams := map[uint64]*received{}
		for _, n := range []uint64{3, 4, 5, 1000, 1 << 50} {
			streams[n] = w.dial(u, fmt.Sprintf(`{"action":"subscribe","trades":["A|M|CI"],"resume":{"epoch":%q,"trades":{"A|M|CI":%d}}}`, epoch, n))
		}
		positions := map[uint64]*received{}
		for _, pos := range []uint64{at - 1, at, at + 1, at + 1000, 1 << 50} {
			positions[pos] = w.dial(u, fmt.Sprintf(`{"action":"subscribe","trades":["A|M|CI"],"status":["A|M|CI"],"resume":{"epoch":%q,"position":"%s:%d"}}`, epoch, epoch, pos))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		same := func(list map[uint64]*received) {
			t.Helper()
			first := ""
			for n, got := range list {
				lines := strings.Split(got.String(), "\n")[1:]                        // after Success
				text := strings.ReplaceAll(strings.Join(lines, "\n"), epoch, "EPOCH") // it may end like a position
				text = regexp.MustCompile(fmt.Sprintf(`([|:A-Za-z"]):?%d([}"])`, n)).ReplaceAllString(text, "${1}n$2")
				if first == "" {
					first = text
				}
				if text != first || strings.Contains(text, "ahead") || strings.Contains(text, live+`"`) {
					t.Errorf("resumed at %d: %s\nanother: %s", n, text, first)
				}
			}
		}
		same(streams)
		same(positions)
		w.publish(4)
		time.Sleep(2 * tableDelay)
		w.publish(4)
		time.Sleep(tableDelay + time.Minute)
		synctest.Wait()
		last := regexp.MustCompile(`"type":"T"[^}]*"I":"A\|M\|CI"[^}]*"N":5`)
		for _, list := range []map[uint64]*received{streams, positions} {
			for n, got := range list {
				if n < 1<<50 && !last.MatchString(got.String()) {
					t.Errorf("the stream resumed at %d does not go on: %s", n, got)
				}
			}
		}
	})
}

// hiddenStreams has messages of a WebSocket, each a conversation of its own.
func hiddenStreams() [][]string {
	const some = `{"action":"subscribe","trades":["A|M|CI"],"quotes":["A|M|CI"],"status":["A|M|CI"],"summary":["A|M|CI"],"alive":true}`
	return [][]string{
		{`{"action":"subscribe","trades":[]}`},
		{`{"action":"subscribe","quotes":[],"order_book":[],"status":[],"summary":[],"bars":[],"alive":true}`},
		{`{"action":"subscribe","trades":[],"replace":true}`},
		{`{"action":"subscribe","trades":[],"resume":{"epoch":"EPOCH","position":"EPOCH:1"}}`},
		{`{"action":"subscribe","trades":[],"start":"open"}`},
		{`{"action":"subscriptions"}`},
		{`{"action":"unsubscribe","trades":[]}`, `{"action":"unsubscribe","trades":["A|M|CI"]}`},
		{`{"action":"resync","quotes":[]}`, `{"action":"ping","id":1}`},
		{some},
		{some, `{"action":"subscriptions"}`, `{"action":"resync","quotes":["A|M|CI"]}`},
		{some, `{"action":"unsubscribe","trades":["A|M|CI"],"quotes":["A|M|CI"],"status":["A|M|CI"],"summary":["A|M|CI"]}`},
		{some, `{"action":"subscribe","trades":[],"replace":true}`, `{"action":"subscriptions"}`},
		{`{"action":"subscribe","trades":["A|M|CI"],"bars":["A|M|CI"],"start":"open"}`},
		{`{"action":"subscribe","trades":["A|M|CI"],"resume":{"epoch":"EPOCH","position":"EPOCH:1"}}`},
		{`{"action":"subscribe","trades":["A|M|CI"],"resume":{"epoch":"EPOCH","trades":{"A|M|CI":9}}}`},
	}
}

// hiddenRequests has requests of REST.
func hiddenRequests() []string {
	const a = "A%7CM%7CCI"
	list := []string{
		"/market/snapshot?instruments=" + a, "/market/snapshot?instruments=" + a + ",B%7CM%7CCI", "/market/book?depth=0&instrument=" + a,
		"/market/book?at=2000-01-02T13:59:00Z&instrument=" + a, "/market/book?at=2000-01-02T16:00:00Z&instrument=" + a,
		"/market/status", "/market/instruments", "/market/markets", "/market/calendar", "/market/time", "/readyz",
		"/market/bars?interval=1s&order=desc&instrument=" + a, "/market/statuses?instrument=*%7CM%7C*",
	}
	for _, kind := range []string{"trades", "quotes", "statuses", "bars"} {
		list = append(list, "/market/"+kind+"?order=desc&instrument="+a, "/market/"+kind+"?limit=2&instrument="+a, "/market/"+kind+"?after_sequence=2&instrument="+a)
	}
	for _, date := range []string{"2000-01-01", "2000-01-02"} {
		list = append(list, "/market/export?type=trades&market=M&format=csv&date="+date)
	}
	return list
}

// TestThreat23RealTimeIsHidden runs a gateway twice: the market is quiet for the length of a delay,
// or busy. Users without a right, with delayed rights and with a lost right receive the same on all
// interfaces: positions, numbers, times, marks and headers do not show what happens in real time.
func TestThreat23RealTimeIsHidden(t *testing.T) {
	t.Parallel()
	quiet, busy := hiddenAnswers(t, 0), hiddenAnswers(t, 5)
	cells := 0
	for name, text := range quiet {
		if cells++; text == "" {
			t.Errorf("%s: no answer", name)
		}
		if busy[name] != text {
			t.Errorf("%s\nquiet: %s\nbusy:  %s", name, text, busy[name])
		}
	}
	t.Logf("figure: hidden: %d answers", cells)
}

// hiddenAnswers returns what each user receives on each interface while the market has a number of
// batches of events.
func hiddenAnswers(t *testing.T, batches int) map[string]string {
	t.Helper()
	table := tableRights()
	rights := []tableRight{table[0], table[2], table[3], table[9], table[17], {name: "lost", rights: table[4].rights}}
	all := make(map[string]string)
	synctest.Test(t, func(t *testing.T) {
		w, stop := newRightsWorld(t, rights)
		defer stop()
		streams := make(map[string]*received)
		var users []*tableUser
		for i := range rights {
			u := &tableUser{right: &rights[i]}
			u.access, _ = w.login(t, fmt.Sprint("user", i))
			users = append(users, u)
			for _, send := range hiddenStreams() {
				streams[u.right.name+" WebSocket before "+strings.Join(send, " ")] = w.dial(u, send...)
			}
			for _, face := range []string{"server-sent events", "JSON lines"} {
				streams[u.right.name+" "+face+" before"] = w.events(u, face, levelTrades, "now")
			}
		}
		time.Sleep(time.Second)
		lost := w.users.users[fmt.Sprint("user", len(rights)-1)]
		lost.Entitlements = nil
		w.users.set(func() { w.users.users[lost.ID] = lost })
		w.env.Registry.GrantsChanged(lost.ID, session.Grants{Scopes: lost.Scopes})
		time.Sleep(2 * time.Minute) // until tokens are checked with the new rights
		for range batches {
			w.publish(4)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(10-batches) * time.Millisecond)
		for _, u := range users {
			name := u.right.name
			for _, send := range hiddenStreams() {
				streams[name+" WebSocket "+strings.Join(send, " ")] = w.dial(u, send...)
			}
			for _, face := range []string{"server-sent events", "JSON lines"} {
				streams[name+" "+face] = w.events(u, face, levelTrades, "since today's open")
			}
			for _, path := range hiddenRequests() {
				answer := w.gateway.get(path, u.access)
				header := answer.Header()
				header.Del("X-Request-Id")
				all[name+" GET "+path] = fmt.Sprint(answer.Code, header, answer.Body)
			}
		}
		time.Sleep(time.Minute) // some Alive marks
		synctest.Wait()
		for name, got := range streams {
			all[name] = got.String()
		}
	})
	random := regexp.MustCompile(`"(request_id|session)":"[^"]*"`)
	for name, text := range all {
		lines := strings.Split(random.ReplaceAllString(text, `"$1":""`), "\n")
		slices.Sort(lines) // answers may come before or after data
		all[name] = strings.Join(lines, "\n")
	}
	return all
}
