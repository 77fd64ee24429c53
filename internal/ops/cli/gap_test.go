package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// TestRecordFillsGaps has a server omit a trade, which a resume recovers. Then it omits a bar and
// a status that the server does not have any more. The server reports only one of these losses.
func TestRecordFillsGaps(t *testing.T) {
	t.Parallel()
	row := func(kind string, n int, rest string) string {
		return fmt.Sprintf(`{"type":"%s","S":"GGAL","I":"GGAL|BYMA|CI","N":%d,"T":"2026-11-20T14:30:00.000000000Z",%s}`, kind, n, rest)
	}
	trade := func(n int) string { return row("T", n, `"P":7050,"Z":1`) }
	bar := func(n int) string {
		return row("K", n, `"IV":"1s","OP":1,"HI":1,"LO":1,"CL":1,"TV":1,"EV":1,"TC":1`)
	}
	status := func(n int) string { return row("H", n, `"E":"open"`) }
	caughtUp := `{"type":"CaughtUp","code":200,"id":1,"epoch":"e1","position":"e1:9"}`
	reportsLost := strings.Replace(subscribed, `"epoch"`, `"lost":{"status":{"GGAL|BYMA|CI":{"from":2,"to":4,"reason":"buffer_exceeded"}}},"epoch"`, 1)
	visits := []struct {
		wanted string
		says   []string
	}{
		{`"subscribe"`, []string{subscribed, trade(1), bar(1), status(1), trade(3)}},
		{`"resume":{"epoch":"e1","position":"e1:7","trades":{"GGAL|BYMA|CI":1},"status":{"GGAL|BYMA|CI":1},"bars":{"GGAL|BYMA|CI|1s":1}}`,
			[]string{subscribed, trade(2), trade(3), caughtUp, bar(4)}},
		{`"bars":{"GGAL|BYMA|CI|1s":1}`, []string{subscribed, caughtUp, bar(4), status(5)}},
		{`"status":{"GGAL|BYMA|CI":1}`, []string{reportsLost, caughtUp, status(5), trade(4)}},
	}
	visit := 0
	url, _ := standIn(t, 86400, func(ctx context.Context, conn *websocket.Conn) error {
		v := visits[min(visit, len(visits)-1)]
		visit++
		return errors.Join(hear(ctx, conn, `"auth_token"`), say(ctx, conn, success), hear(ctx, conn, v.wanted), say(ctx, conn, v.says...), waitForEnd(ctx, conn))
	})
	name := filepath.Join(t.TempDir(), "a.jsonl")
	r := start(t, "record", "GGAL|BYMA|CI", "--channels", "trades,status,bars", "--interval", "1s", "-f", name, "--url", url)
	r.said(`connection lost: .*: messages are missing; retrying in`)
	r.said(`lost: bars GGAL\|BYMA\|CI\|1s from #2 to #3 \(missing\)`)
	r.said(`lost: status GGAL\|BYMA\|CI from #2 to #4 \(buffer_exceeded\)`)
	waitFor(t, func() bool {
		text, err := os.ReadFile(name)
		return err == nil && strings.Contains(string(text), `"N":4,"T":"2026-11-20T14:30:00.000000000Z","P"`)
	})
	r.stop()
	if status := r.exit(); status != command.ExitOK {
		t.Errorf("ended with %d", status)
	}
	r.said(`; 2 ranges were lost`)
	if n := strings.Count(r.talk.String(), ": messages are missing"); n != 3 {
		t.Errorf("%d gaps were requested, want 3", n)
	}
	_, list := recorded(t, name)
	var trades []string
	for _, body := range list {
		if strings.HasPrefix(body, `{"type":"T"`) {
			_, rest, _ := strings.Cut(body, `"N":`)
			n, _, _ := strings.Cut(rest, ",")
			trades = append(trades, n)
		}
	}
	if strings.Join(trades, " ") != "1 2 3 4" {
		t.Errorf("trades %v in\n%s", trades, strings.Join(list, "\n"))
	}
}

// TestWatchAsksByName checks that after a gap in an instrument of a pattern, the watch subscribes
// to it by name, and to the other instruments that may have a gap.
func TestWatchAsksByName(t *testing.T) {
	t.Parallel()
	first := true
	trade := func(n int) string {
		return fmt.Sprintf(`{"type":"T","S":"GGAL","I":"GGAL|BYMA|CI","N":%d,"T":"2026-11-20T14:30:00.000000000Z","P":7050,"Z":1}`, n)
	}
	url, _ := standIn(t, 86400, func(ctx context.Context, conn *websocket.Conn) error {
		wanted, says := `"subscribe"`, []string{subscribed, trade(1), strings.ReplaceAll(trade(7), "GGAL", "AL30"), trade(4)}
		if !first {
			wanted, says = `"trades":["*|BYMA|CI","GGAL|BYMA|CI"],"status":["*|BYMA|CI"],"alive":true,"resume":{"epoch":"e1","position":"e1:7","trades":{"GGAL|BYMA|CI":1}}`, []string{subscribed, trade(2), trade(3), trade(4)}
		}
		first = false
		return errors.Join(hear(ctx, conn, `"auth_token"`), say(ctx, conn, success), hear(ctx, conn, wanted), say(ctx, conn, says...), waitForEnd(ctx, conn))
	})
	w := start(t, "watch", "*|BYMA|CI", "--trades", "--url", url, "--count", "5")
	for n := range 4 {
		w.line(fmt.Sprintf(`  T  GGAL\|BYMA\|CI +7050 x 1 +#%d$`, n+1))
	}
	if status := w.exit(); status != command.ExitOK || strings.Contains(w.talk.String(), "  lost: ") {
		t.Errorf("ended with %d", status)
	}
}

// TestRefusedOnce has a server reject an unknown instrument on each channel. It is reported once.
func TestRefusedOnce(t *testing.T) {
	t.Parallel()
	refusal := func(channel string) string {
		return `{"channel":"` + channel + `","instrument":"NONE|BYMA|CI","code":404,"reason":"unknown_instrument","msg":"Unknown instrument","hint":"See GET /market/instruments"}`
	}
	ack := strings.Replace(subscribed, `"epoch"`, `"rejected":[`+refusal("trades")+`,`+refusal("quotes")+`],"epoch"`, 1)
	url, _ := standIn(t, 86400, func(ctx context.Context, conn *websocket.Conn) error {
		return errors.Join(hear(ctx, conn, `"auth_token"`), say(ctx, conn, success), hear(ctx, conn, `"subscribe"`), say(ctx, conn, ack), waitForEnd(ctx, conn))
	})
	w := start(t, "watch", "GGAL|BYMA|CI", "NONE|BYMA|CI", "--url", url)
	w.said(`  live as demo at \S+: GGAL\|BYMA\|CI\n`)
	w.said(`  NONE\|BYMA\|CI refused: Unknown instrument\. See GET /market/instruments\n`)
	if n := strings.Count(w.talk.String(), "NONE"); n != 1 {
		t.Errorf("printed %d times", n)
	}
	w.stop()
	w.exit()
}
