package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/internal/api/asyncapi/asyncapitest"
	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// standIn runs a server that sends the messages of a test to a watch.
func standIn(t *testing.T, expiresIn int, talk func(ctx context.Context, conn *websocket.Conn) error) (url string, refreshes *atomic.Int64) {
	t.Helper()
	refreshes = new(atomic.Int64)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /auth/token", func(w http.ResponseWriter, r *http.Request) {
		var body map[string]string
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		if body["grant_type"] == wire.GrantRefresh {
			refreshes.Add(1)
		}
		fmt.Fprintf(w, `{"success":true,"data":{"access_token":"a","refresh_token":"r","expires_in":%d}}`, expiresIn)
	})
	mux.HandleFunc("GET /market/instruments", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, catalogue)
	})
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(openapitest.NoGateway, "test")
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.CloseNow() }()
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		if err := talk(ctx, conn); err != nil {
			t.Errorf("server: %v", err)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL, refreshes
}

// say sends messages. hear waits for one that contains a text.
func say(ctx context.Context, conn *websocket.Conn, messages ...string) error {
	for _, m := range messages {
		if err := conn.Write(ctx, websocket.MessageText, []byte(m)); err != nil {
			return err
		}
	}
	return nil
}

func hear(ctx context.Context, conn *websocket.Conn, want string) error {
	_, msg, err := conn.Read(ctx)
	if err == nil {
		err = asyncapitest.CheckClient(msg)
	}
	if err == nil && !strings.Contains(string(msg), want) {
		err = fmt.Errorf("got %s, want %s in it", msg, want)
	}
	return err
}

// waitForEnd waits until the client disconnects.
func waitForEnd(ctx context.Context, conn *websocket.Conn) error {
	if _, msg, err := conn.Read(ctx); err == nil {
		return fmt.Errorf("got %s after the end", msg)
	}
	return ctx.Err()
}

const (
	success    = `{"type":"Success","code":200,"msg":"Connected"}`
	subscribed = `{"type":"Subscription","code":200,"msg":"Subscribed","id":1,"epoch":"e1","position":"e1:7"}`
)

// bookMessage returns a message of a book that has at most one bid, with its checksum.
func bookMessage(n int, rest string) string {
	if bid := regexp.MustCompile(`\[7040,(\d+)\]`).FindStringSubmatch(rest); bid != nil && !strings.Contains(rest, `"K"`) {
		level := market.Level{Price: 7040 * market.Scale}
		level.Size, _ = market.ParseSize(bid[1])
		bids := []market.Level{level}
		if level.Size == 0 {
			bids = nil
		}
		sum, _ := wire.Checksum(nil, bids, nil, 10, 2, 0)
		rest += fmt.Sprintf(`,"K":%d`, sum)
	}
	return fmt.Sprintf(`{"type":"O","S":"GGAL","I":"GGAL|BYMA|CI","N":%d,"T":"2026-11-20T14:30:00.000000000Z",%s}`, n, rest)
}

// TestWatchRepairsBook breaks the chain of a book. The watch requests it once, prints nothing of it
// until the snapshot arrives, and continues.
func TestWatchRepairsBook(t *testing.T) {
	t.Parallel()
	url, _ := standIn(t, 86400, func(ctx context.Context, conn *websocket.Conn) error {
		return errors.Join(
			hear(ctx, conn, `"auth_token"`), say(ctx, conn, success),
			hear(ctx, conn, `"status":["GGAL|BYMA|CI"]`), say(ctx, conn, subscribed),
			hear(ctx, conn, `"order_book":["GGAL|BYMA|CI"]`), say(ctx, conn, strings.Replace(subscribed, `"id":1`, `"id":2`, 1),
				bookMessage(1, `"R":true,"DL":5,"B":[[7040,1]],"A":[]`),
				bookMessage(2, `"L":1,"B":[[7040,2]]`),
				bookMessage(4, `"L":3,"B":[[7040,4]]`),
				bookMessage(5, `"L":4,"B":[[7040,5]]`)),
			hear(ctx, conn, `"action":"resync"`), say(ctx, conn, `{"action":"ping"}`),
			hear(ctx, conn, `"pong"`), say(ctx, conn,
				bookMessage(6, `"R":true,"DL":5,"B":[[7040,6]],"A":[]`),
				bookMessage(7, `"L":6,"B":[[7040,0]]`)),
			waitForEnd(ctx, conn))
	})
	w := start(t, "watch", "GGAL|BYMA|CI", "--book", "--url", url, "--count", "4")
	for _, want := range []string{"#1", "1        7040 |", "#2", "2        7040 |", "#6", "6        7040 |", "#7", " |"} {
		w.line(regexp.QuoteMeta(want) + `$`)
	}
	if status := w.exit(); status != command.ExitOK {
		t.Errorf("ended with %d", status)
	}
	w.said(`the book of GGAL\|BYMA\|CI is not known until its next snapshot \(chain\)`)
}

// TestWatchRefreshes keeps a socket open past the expiry of several tokens.
func TestWatchRefreshes(t *testing.T) {
	t.Parallel()
	var refreshes *atomic.Int64
	var url string
	url, refreshes = standIn(t, 1, func(ctx context.Context, conn *websocket.Conn) error {
		err := errors.Join(hear(ctx, conn, `"auth_token"`), say(ctx, conn, success), hear(ctx, conn, `"subscribe"`), say(ctx, conn, subscribed))
		look := time.NewTicker(10 * time.Millisecond)
		defer look.Stop()
		for refreshes.Load() < 2 && ctx.Err() == nil {
			<-look.C
		}
		trade := `{"type":"T","S":"GGAL","I":"GGAL|BYMA|CI","N":1,"T":"2026-11-20T14:30:00.000000000Z","P":7050,"Z":1}`
		return errors.Join(err, say(ctx, conn, trade), waitForEnd(ctx, conn))
	})
	w := start(t, "watch", "GGAL|BYMA|CI", "--trades", "--url", url, "--count", "1")
	w.line(`  T  GGAL\|BYMA\|CI +7050 x 1 +#1$`)
	if talk := w.talk.String(); strings.Contains(talk, "connection lost") {
		t.Errorf("the link was lost:\n%s", talk)
	}
}

// TestWatchPrintsSubscriptions has a server reject one of two instruments, and lose messages.
func TestWatchPrintsSubscriptions(t *testing.T) {
	t.Parallel()
	const ack = `{"type":"Subscription","code":200,"msg":"Subscribed","id":1,"epoch":"e1","position":"e1:7",` +
		`"rejected":[{"channel":"trades","instrument":"NONE|BYMA|CI","code":404,"reason":"unknown_instrument","msg":"Unknown instrument"}]`
	const lost = `,"lost":{"trades":{"GGAL|BYMA|CI":{"from":3,"to":9,"reason":"buffer_exceeded"}}}`
	const trade = `{"type":"T","S":"GGAL","I":"GGAL|BYMA|CI","N":2,"T":"2026-11-20T14:30:00.000000000Z","P":7050,"Z":1}`
	again := false
	url, _ := standIn(t, 86400, func(ctx context.Context, conn *websocket.Conn) error {
		err := errors.Join(hear(ctx, conn, `"auth_token"`), say(ctx, conn, success), hear(ctx, conn, `"subscribe"`))
		if again {
			return errors.Join(err, hear(ctx, conn, `"id":2`), say(ctx, conn, ack+lost+"}", strings.Replace(subscribed, `"id":1`, `"id":2`, 1),
				`{"type":"CaughtUp","code":200,"id":1,"epoch":"e1"}`), waitForEnd(ctx, conn))
		}
		again = true
		return errors.Join(err, say(ctx, conn, ack+"}", trade))
	})
	w := start(t, "watch", "GGAL|BYMA|CI", "NONE|BYMA|CI", "--trades", "--url", url)
	w.said(`  NONE\|BYMA\|CI refused: Unknown instrument\n`)
	w.said(`  live as demo at ` + url + `: GGAL\|BYMA\|CI\n`)
	w.said(`  connection lost: ` + url + `: connection broken: EOF; retrying in`)
	w.said(`  lost: trades GGAL\|BYMA\|CI from #3 to #9 \(buffer_exceeded\)\n`)
	w.said(`  live again\n`)
	w.stop()
	w.exit()
}

// TestWatchPrintsRights removes rights during a watch. Each removal is printed, and the last one
// ends the watch.
func TestWatchPrintsRights(t *testing.T) {
	t.Parallel()
	const all = `{"type":"Subscription","code":200,"msg":"Subscribed","id":1,"epoch":"e1","position":"e1:7","trades":["GGAL|BYMA|CI"],"quotes":["GGAL|BYMA|CI"]}`
	const late = `{"type":"Subscription","code":200,"msg":"Rights changed","epoch":"e1","position":"e1:7","trades":["GGAL|BYMA|CI"],` +
		`"moved":[{"channel":"trades","instrument":"GGAL|BYMA|CI","delay":900}]}`
	const less = `{"type":"Subscription","code":200,"msg":"Rights changed","epoch":"e1","position":"e1:7","quotes":[],` +
		`"removed":[{"channel":"quotes","instrument":"GGAL|BYMA|CI","reason":"not_entitled"}]}`
	const none = `{"type":"Subscription","code":200,"msg":"Rights changed","epoch":"e1","position":"e1:7","trades":[],` +
		`"removed":[{"channel":"trades","instrument":"GGAL|BYMA|CI","reason":"not_entitled"}]}`
	url, _ := standIn(t, 86400, func(ctx context.Context, conn *websocket.Conn) error {
		return errors.Join(
			hear(ctx, conn, `"auth_token"`), say(ctx, conn, success),
			hear(ctx, conn, `"subscribe"`), say(ctx, conn, all, late, less, `{"action":"ping"}`),
			hear(ctx, conn, `"pong"`), say(ctx, conn, none), waitForEnd(ctx, conn))
	})
	for _, args := range [][]string{
		{"watch", "GGAL|BYMA|CI"},
		{"record", "GGAL|BYMA|CI", "--channels", "trades,quotes", "-f", t.TempDir() + "/a.jsonl"},
	} {
		w := start(t, append(args, "--url", url)...)
		if status := w.exit(); status != command.ExitRefused {
			t.Errorf("%s ended with %d", args[0], status)
		}
		w.said(`trades GGAL\|BYMA\|CI is now 15m0s late`)
		w.said(`quotes GGAL\|BYMA\|CI removed: no right to this data`)
		w.said(`trades GGAL\|BYMA\|CI removed: no right to this data`)
		w.said(`rueda: no subscription is left`)
	}
}

// TestWatchPrintsRefusal checks the message for an error of the server, and for an answer that is
// not from a gateway.
func TestWatchPrintsRefusal(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		code         int
		wait, body   string
		status       int
		want, advice string
	}{
		{429, "7", `{"success":false,"error":{"code":429,"reason":"too_many_failures","msg":"Too many failures"}}`, command.ExitError, "too_many_failures: Too many failures", "  Try again in 7 s.\n"},
		{503, "", `{"success":false,"error":{"code":503,"reason":"unavailable","msg":"Starting","hint":"Wait for it."}}`, command.ExitError, "unavailable: Starting", "  Wait for it.\n"},
		{502, "", "<html>Bad Gateway</html>", command.ExitUnreachable, " answered 502", "The server at this address is not a gateway"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if tc.wait != "" {
				w.Header().Set("Retry-After", tc.wait)
			}
			w.WriteHeader(tc.code)
			fmt.Fprint(w, tc.body)
		}))
		status, _, talk := execute(t, "watch", "GGAL|BYMA|CI", "--url", server.URL)
		server.Close()
		if status != tc.status || !strings.Contains(talk, tc.want) || !strings.Contains(talk, tc.advice) || strings.Contains(talk, "Is it running") {
			t.Errorf("%d: status %d\n%s", tc.code, status, talk)
		}
	}
}

// TestWatchPrintsFeedDown sends feed_down after a status with the same N. It is printed once.
func TestWatchPrintsFeedDown(t *testing.T) {
	t.Parallel()
	h := func(n int, phase string) string {
		return fmt.Sprintf(`{"type":"H","S":"*","I":"*|BYMA|*","N":%d,"T":"2026-11-20T20:00:00.000000000Z","R":true,"E":%q}`, n, phase)
	}
	url, _ := standIn(t, 86400, func(ctx context.Context, conn *websocket.Conn) error {
		return errors.Join(hear(ctx, conn, `"auth_token"`), say(ctx, conn, success), hear(ctx, conn, `"subscribe"`),
			say(ctx, conn, subscribed, h(8, "closed"), h(8, "feed_down"), h(8, "closed"), h(8, "feed_down"), h(9, "feed_up")), waitForEnd(ctx, conn))
	})
	w := start(t, "watch", "GGAL|BYMA|CI", "--status", "--url", url, "--count", "3")
	for _, want := range []string{"closed  #8", "feed_down  #8", "feed_up  #9"} {
		if got := w.line(`  H  \*\|BYMA\|\* +(.*)$`)[1]; got != want {
			t.Errorf("printed %q, want %q", got, want)
		}
	}
	if status := w.exit(); status != command.ExitOK {
		t.Errorf("ended with %d", status)
	}
}
