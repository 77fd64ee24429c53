package gateway_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed/ndjson"
	"github.com/ruedahq/rueda/gateway"
)

// TestRefusedEventsAreAnswered checks the answers to well-formed lines whose events the gateway
// refuses: books of more levels than there may be, and a trade that the checks of the feed refuse.
// The other lines are published without an answer.
func TestRefusedEventsAreAnswered(t *testing.T) {
	at := make(chan net.Addr, 1)
	src, err := ndjson.New(ndjson.Config{Listen: "127.0.0.1:0", Anonymous: true, OnListen: func(a net.Addr) { at <- a }})
	if err != nil {
		t.Fatal(err)
	}
	run(t, gateway.Config{Listen: "127.0.0.1:0", Feeds: []gateway.Feed{{Name: "lines", Source: src, Checks: gateway.FeedChecks{Refuse: []string{"future_time"}}}}})
	conn, err := net.Dial("tcp", (<-at).String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	levels := func(best, n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf("[%d,1]", best-i)
		}
		return strings.Join(list, ",")
	}
	future := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	for _, line := range []string{
		`{"type":"Hello"}`,
		`{"type":"F","I":"BIG|T|CI","currency":"ARS","price_decimals":2,"size_decimals":0}`,
		`{"type":"O","I":"BIG|T|CI","R":true,"B":[` + levels(70_000, 60_000) + `],"A":[]}`,
		`{"type":"O","I":"BIG|T|CI","B":[` + levels(76_000, 6_000) + `]}`, // 66,000 levels
		`{"type":"T","I":"BIG|T|CI","P":1,"Z":1}`,
		`{"type":"O","I":"BIG|T|CI","R":true,"B":[` + levels(70_000, 66_000) + `],"A":[]}`,
		`{"type":"T","I":"BIG|T|CI","P":1,"Z":1,"T":"` + future + `"}`,
		`{"type":"O","I":"BIG|T|CI","R":true,"B":[[1,1]],"A":[]}`,
	} {
		if _, err := fmt.Fprintln(conn, line); err != nil {
			t.Fatal(err)
		}
	}
	const deep = `{"type":"Error","code":400,"reason":"bad_field","msg":"line %[1]d: refused: bad_book: a side of a book has at most 65,536 levels","retry":false,` +
		`"hint":"The book is stale: changes are ignored until an O line with R:true","line":%[1]d,"refused":"bad_book","instrument":"BIG|T|CI"}`
	for _, want := range []string{fmt.Sprintf(deep, 4), fmt.Sprintf(deep, 6), `"line":7,"refused":"future_time","instrument":"BIG|T|CI"}`} {
		if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		got := ""
		for b := make([]byte, 1); !strings.HasSuffix(got, "\n"); got += string(b) {
			if _, err := conn.Read(b); err != nil {
				t.Fatalf("%q, then %v; want %s", got, err, want)
			}
		}
		if !strings.HasSuffix(got, want+"\n") {
			t.Errorf("got  %swant %s", got, want)
		}
	}
	if got := src.Stats(); got.Faults != 3 {
		t.Errorf("%+v", got)
	}
}
