package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/internal/data/recording"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// execute runs a command line to its end.
func execute(t *testing.T, args ...string) (status int, out, talk string) {
	t.Helper()
	var o, e strings.Builder
	status = run(t.Context(), args, command.Streams{In: strings.NewReader(""), Out: &o, Err: &e})
	return status, o.String(), e.String()
}

// recorded reads a recording and returns its first line and its messages.
func recorded(t *testing.T, name string) (*recording.Meta, []string) {
	t.Helper()
	r, err := recording.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var list []string
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			if r.Torn() != nil {
				t.Error(r.Torn())
			}
			return r.Meta(), list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(line.Body))
	}
}

// verified checks that a file is valid and returns the report.
func verified(t *testing.T, name string) map[string]any {
	t.Helper()
	status, out, talk := execute(t, "verify", name, "--json")
	if status != command.ExitOK {
		t.Fatalf("verify %s: %d\n%s%s", name, status, out, talk)
	}
	var r map[string]any
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRecordResumes repeatedly cuts the connection of a recorder. The file has no gaps.
func TestRecordResumes(t *testing.T) {
	_, url := startMarket(t, "--speed", "50")
	link := startFlaky(t, strings.TrimPrefix(url, "http://"))
	name := filepath.Join(t.TempDir(), "day.jsonl.zst")
	r := start(t, "record", "GGAL|BYMA|24hs", "*|BYMA|CI", "-f", name, "--url", "http://"+link.Addr().String())
	r.said(`live as demo`)
	for cuts := range 3 {
		waitFor(t, func() bool { return grown(name, int64(20_000*(cuts+1))) })
		link.cut()
		r.said(strings.Repeat(`(?s)live again.*`, cuts+1))
	}
	waitFor(t, func() bool { return grown(name, 100_000) })
	r.stop()
	if status := r.exit(); status != command.ExitOK {
		t.Errorf("ended with %d", status)
	}
	r.said(`day\.jsonl\.zst: [\d,]+ messages in \d+s, \S+ [kMG]?B of text in a file of .*; the connection was lost 3 times\.`)
	m, list := recorded(t, name)
	if m.Epoch == "" || len(m.Instruments) < 2 || strings.Join(m.IDs, " ") != "GGAL|BYMA|24hs *|BYMA|CI" {
		t.Errorf("first line: %+v", m)
	}
	kinds := map[string]int{}
	for _, body := range list {
		head, _, _ := strings.Cut(body, ",")
		kinds[head]++
	}
	if kinds[`{"recording":"disconnected"`] != 3 || kinds[`{"recording":"connected"`]+kinds[`{"recording":"connected"}`] != 3 || kinds[`{"recording":"lost"`] > 0 {
		t.Errorf("notes: %v", kinds)
	}
	for _, kind := range []string{"T", "Q", "O", "H", "Subscription"} {
		if kinds[`{"type":"`+kind+`"`] == 0 {
			t.Errorf("no %s: %v", kind, kinds)
		}
	}
	verified(t, name)
}

func grown(name string, size int64) bool {
	info, err := os.Stat(name)
	return err == nil && info.Size() >= size
}

// waitFor waits until good returns true.
func waitFor(t *testing.T, good func() bool) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	late := time.After(patience)
	for !good() {
		select {
		case <-look.C:
		case <-late:
			t.Fatal("waited in vain")
		}
	}
}

const catalogue = `{"success":true,"data":{"instruments":[{"instrument":"GGAL|BYMA|CI","price_decimals":2,"size_decimals":0,"status":"open"}]}}`

// TestRecordWritesWhatCame checks that messages are recorded byte for byte. The server also omits
// some, and breaks a book, which is requested again.
func TestRecordWritesWhatCame(t *testing.T) {
	odd := `{ "type":"T", "S":"GGAL","I":"GGAL|BYMA|CI","N":5,"T":"2026-11-20T14:30:00.000000000Z","P":7050.0,"Z":1,"new":"\u00e9" }`
	url, _ := standIn(t, 86400, func(ctx context.Context, conn *websocket.Conn) error {
		return errors.Join(hear(ctx, conn, `"auth_token"`), say(ctx, conn, success),
			hear(ctx, conn, `"depth":0`), say(ctx, conn,
				subscribed, odd,
				bookMessage(1, `"R":true,"DL":0,"B":[[7040,1]],"A":[]`), bookMessage(4, `"L":3,"B":[[7040,4]]`)),
			hear(ctx, conn, `"resync"`), say(ctx, conn, bookMessage(6, `"R":true,"DL":0,"B":[[7040,6]],"A":[]`)),
			waitForEnd(ctx, conn))
	})
	name := filepath.Join(t.TempDir(), "a.jsonl")
	r := start(t, "record", "GGAL|BYMA|CI", "-f", name, "--url", url)
	waitFor(t, func() bool {
		text, err := os.ReadFile(name)
		return err == nil && strings.Contains(string(text), `"N":6`)
	})
	r.stop()
	if status := r.exit(); status != command.ExitOK {
		t.Errorf("ended with %d", status)
	}
	_, list := recorded(t, name)
	want := []string{`"Subscription"`, odd, `"N":1,`, `"N":4,`, `"N":6,`, `{"recording":"end","rows":5}`}
	if len(list) != len(want) {
		t.Fatalf("%d lines: %s", len(list), strings.Join(list, "\n"))
	}
	for i := range want {
		if !strings.Contains(list[i], want[i]) {
			t.Errorf("line %d: %s, want %s", i, list[i], want[i])
		}
	}
}

// TestRecordAppends continues a file at its end.
func TestRecordAppends(t *testing.T) {
	trade := func(n int) string {
		return fmt.Sprintf(`{"type":"T","S":"GGAL","I":"GGAL|BYMA|CI","N":%d,"T":"2026-11-20T14:30:00.000000000Z","P":7050,"Z":1}`, n)
	}
	first := true
	url, _ := standIn(t, 86400, func(ctx context.Context, conn *websocket.Conn) error {
		wanted, from := `{"action":"subscribe","id":1,"trades":["GGAL|BYMA|CI"],"alive":true}`, 1
		if !first {
			wanted, from = `"resume":{"epoch":"e1","position":"e1:9","trades":{"GGAL|BYMA|CI":2}}`, 3
		}
		first = false
		return errors.Join(hear(ctx, conn, `"auth_token"`), say(ctx, conn, success),
			hear(ctx, conn, wanted), say(ctx, conn, subscribed, trade(from), trade(from+1), `{"type":"Alive","epoch":"e1","position":"e1:9"}`), waitForEnd(ctx, conn))
	})
	name := filepath.Join(t.TempDir(), "a.jsonl.gz")
	for i, args := range [][]string{{"GGAL|BYMA|CI", "--channels", "trades"}, {"--append"}} {
		r := start(t, append([]string{"record", "-f", name, "--url", url, "--for", "1s"}, args...)...)
		if status := r.exit(); status != command.ExitOK {
			t.Fatalf("run %d ended with %d", i, status)
		}
	}
	_, list := recorded(t, name)
	var ns []string
	for _, body := range list {
		if _, rest, ok := strings.Cut(body, `"N":`); ok {
			n, _, _ := strings.Cut(rest, ",")
			ns = append(ns, n)
		}
	}
	if strings.Join(ns, " ") != "1 2 3 4" {
		t.Errorf("trades %v in\n%s", ns, strings.Join(list, "\n"))
	}
	verified(t, name)
	if status, _, talk := execute(t, "record", "AL30|BYMA|CI", "-f", name, "--append", "--url", url); status != command.ExitUsage || !strings.Contains(talk, "is a recording of GGAL|BYMA|CI") {
		t.Errorf("other instruments: %d, %s", status, talk)
	}
	if status, _, talk := execute(t, "record", "-f", name, "--append", "--channels", "quotes", "--url", url); status != command.ExitUsage || !strings.Contains(talk, "uses the channels") {
		t.Errorf("other channels: %d, %s", status, talk)
	}
}

// TestVerifyLive verifies a live stream of a correct server and of an incorrect one.
func TestVerifyLive(t *testing.T) {
	_, good := startMarket(t, "--speed", "20")
	status, out, talk := execute(t, "verify", "GGAL|BYMA|24hs", "*|BYMA|CI", "--for", "1500ms", "--url", good)
	if status != command.ExitOK || !strings.Contains(out, "Good: no errors") || !strings.Contains(out, "checksum") {
		t.Errorf("%d\n%s%s", status, out, talk)
	}
	bad, _ := standIn(t, 86400, func(ctx context.Context, conn *websocket.Conn) error {
		return errors.Join(hear(ctx, conn, `"auth_token"`), say(ctx, conn, success),
			hear(ctx, conn, `"subscribe"`), say(ctx, conn, subscribed,
				bookMessage(1, `"R":true,"DL":0,"B":[[7040,1]],"A":[[7041,1]],"K":1`)), hear(ctx, conn, `"resync"`), waitForEnd(ctx, conn))
	})
	status, out, talk = execute(t, "verify", "GGAL|BYMA|CI", "--for", "500ms", "--url", bad, "--json")
	if status != command.ExitBadData || !strings.Contains(out, `"check":"checksum","judged":1,"wrong":1`) || !strings.HasSuffix(talk, "1 finding\n") {
		t.Errorf("%d\n%s%s", status, out, talk)
	}
}

// recordFor records for a time, and for twice that time if no message was received, which creates
// no file. It returns the time used.
func recordFor(t *testing.T, span time.Duration, url, name string, ids ...string) time.Duration {
	t.Helper()
	for {
		args := append([]string{"record", "-f", name, "--for", span.String(), "--url", url}, ids...)
		if status, _, talk := execute(t, args...); status != command.ExitOK {
			t.Fatal(talk)
		}
		if _, err := os.Stat(name); err == nil || span > time.Minute {
			return span
		}
		span *= 2
	}
}

// TestReplayOfRecordingE2E records a market and then its replay, which waits for the recorder. Both
// recordings have the same trades.
func TestReplayOfRecordingE2E(t *testing.T) {
	t.Parallel()
	_, url := startMarket(t, "--speed", "50")
	folder := t.TempDir()
	first, second := filepath.Join(folder, "first.jsonl.zst"), filepath.Join(folder, "second.jsonl")
	span := recordFor(t, 2*time.Second, url, first, "GGAL|BYMA|24hs", "AL30|BYMA|CI")
	if m, _ := recorded(t, first); len(m.Markets) != 1 || len(m.Calendar) != 1 || !strings.Contains(string(m.Calendar[0]), `"market":"BYMA"`) {
		t.Errorf("markets %s, calendar %s", m.Markets, m.Calendar)
	}
	p := start(t, "replay", first, "--wait", "--listen", "127.0.0.1:0", "--speed", "0.7")
	p.line(`^Ready in \d+ ms\. Recorded market, speed 0\.7\. It begins one second after the first client has connected\.$`)
	address := p.line(`^  REST +(http://\S+)`)[1]
	p.line(`^  Recorded     first\.jsonl\.zst: AL30\|BYMA\|CI, GGAL\|BYMA\|24hs$`)
	r := start(t, "record", "GGAL|BYMA|24hs", "AL30|BYMA|CI", "-f", second, "--url", address, "--for", (3 * span).String())
	if status := r.exit(); status != command.ExitOK {
		t.Fatalf("ended with %d", status)
	}
	p.said(`The recording has ended; --loop repeats it\.`)
	p.stop()
	if status := p.exit(); status != command.ExitOK {
		t.Errorf("replay ended with %d", status)
	}
	trades := func(name string) map[string][]string {
		list := map[string][]string{}
		_, bodies := recorded(t, name)
		for _, b := range bodies {
			if strings.HasPrefix(b, `{"type":"T"`) {
				_, rest, _ := strings.Cut(b, `"I":"`) // N begins with the epoch, and D is not compared
				id, rest, _ := strings.Cut(rest, `"`)
				_, rest, _ = strings.Cut(rest, `"T":"`)
				at, rest, _ := strings.Cut(rest, `"`)
				_, rest, _ = strings.Cut(rest, `"P":`)
				list[id] = append(list[id], at+rest)
			}
		}
		return list
	}
	a, b := trades(first), trades(second)
	if len(b) == 0 {
		t.Error("no trade came")
	}
	for id, want := range a {
		got := b[id]
		if strings.Join(want, "\n") != strings.Join(got, "\n") {
			t.Errorf("%s: %d trades came of %d, or others:\n%v\n%v", id, len(got), len(want), want, got)
		}
	}
	verified(t, second)
}

func TestFitOfRecording(t *testing.T) {
	_, url := startMarket(t, "--speed", "100")
	name := filepath.Join(t.TempDir(), "a.jsonl")
	recordFor(t, 1500*time.Millisecond, url, name, "GGAL|BYMA|24hs")
	status, out, talk := execute(t, "sim", "fit", name)
	if status != command.ExitOK || !strings.Contains(out, "GGAL|BYMA|24hs leading ") || !strings.Contains(out, "adds to a trade") {
		t.Errorf("%d\n%s%s", status, out, talk)
	}
	status, out, _ = execute(t, "sim", "fit", name, "--json")
	var table struct {
		Instruments []struct {
			Name   string `json:"name"`
			Trades int    `json:"trades"`
		} `json:"instruments"`
	}
	if err := json.Unmarshal([]byte(out), &table); err != nil || status != command.ExitOK || len(table.Instruments) != 1 || table.Instruments[0].Trades == 0 {
		t.Errorf("%d, %v: %s", status, err, out)
	}
}

func TestTrigger(t *testing.T) {
	for _, tc := range []struct {
		name, answer string
		args         []string
		status       int
		want         string
	}{
		{"good", `{"type":"Sim","code":200,"msg":"GGAL|BYMA|24hs is halted","id":1}`, []string{"halt", "GGAL|BYMA|24hs"}, command.ExitOK, "GGAL|BYMA|24hs is halted\n"},
		{"of connections", `{"type":"Sim","code":200,"msg":"It is cut","id":1}`, []string{"disconnect"}, command.ExitOK, "It is cut\n"},
		{"not a dev server", `{"type":"Error","code":400,"reason":"unknown_action","msg":"Unknown action","id":1,"retry":false}`, []string{"halt"}, command.ExitRefused, "Only rueda dev injects faults"},
		{"no such instrument", `{"type":"Error","code":404,"reason":"unknown_instrument","msg":"Unknown instrument","id":1,"retry":false,"hint":"Did you mean GGAL|BYMA|24hs?"}`, []string{"halt", "GGLA|BYMA|24hs"}, command.ExitNotFound, "Did you mean GGAL"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			url, _ := standIn(t, 86400, func(ctx context.Context, conn *websocket.Conn) error {
				wanted := `{"action":"sim","fault":"` + tc.args[0] + `","id":1`
				switch {
				case len(tc.args) > 1:
					wanted += `,"instrument":"` + tc.args[1]
				case tc.args[0] == "disconnect":
					wanted += `,"others":true`
				}
				return errors.Join(hear(ctx, conn, `"auth_token"`), say(ctx, conn, success, `{"action":"ping"}`), hear(ctx, conn, wanted),
					say(ctx, conn, tc.answer))
			})
			status, out, talk := execute(t, append([]string{"trigger", "--url", url}, tc.args...)...)
			if status != tc.status || !strings.Contains(out+talk, tc.want) {
				t.Errorf("%d: %s%s", status, out, talk)
			}
		})
	}
}

// TestFitOfConflatedRecording checks that sim fit says when quotes are missing because the server
// conflated them, and says nothing otherwise.
func TestFitOfConflatedRecording(t *testing.T) {
	t.Parallel()
	for step, want := range map[int]bool{1: false, 2: true} {
		text := `{"rueda":"recording","version":1,"began":"2026-11-20T14:30:00Z","epoch":"e7k2","channels":["trades","quotes","status"],"ids":["GGAL|BYMA|24hs"],"instruments":[{"instrument":"GGAL|BYMA|24hs","price_decimals":2,"size_decimals":0,"status":"open"}]}` + "\n"
		at := time.Date(2026, 11, 20, 14, 30, 0, 0, time.UTC)
		for i := range 100 {
			at = at.Add(time.Second)
			text += fmt.Sprintf(`%d {"type":"Q","S":"GGAL","I":"GGAL|BYMA|24hs","N":%d,"T":%q,"BP":%d,"BZ":1,"AP":7100,"AZ":1}`+"\n", at.UnixNano(), 1+i*step, at.Format("2006-01-02T15:04:05.000000000Z"), 7000+i)
		}
		name := filepath.Join(t.TempDir(), "a.jsonl")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		status, out, talk := execute(t, "sim", "fit", name)
		if status != command.ExitOK || !strings.Contains(out, "GGAL|BYMA|24hs") {
			t.Errorf("%d\n%s%s", status, out, talk)
		}
		if got := strings.Contains(talk, "the recording is conflated: quotes and book changes are missing"); got != want {
			t.Errorf("every quote %d: warned %v: %s", step, got, talk)
		}
	}
}
