//go:build unix

package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// capture returns a capture of Binance of about n bytes.
func capture(n int) []byte {
	var b bytes.Buffer
	at := time.Date(2024, 8, 8, 12, 0, 0, 0, time.UTC).UnixMilli()
	fmt.Fprintf(&b, `%d000000 {"lastUpdateId":1,"bids":[["99","1"]],"asks":[["101","1"]]}`+"\n", at)
	for i := 2; b.Len() < n; i++ {
		at += 250
		fmt.Fprintf(&b, `%d000000 {"stream":"xusdt@trade","data":{"e":"trade","E":%d,"T":%d,"s":"XUSDT","t":%d,"p":"100","q":"%d","m":true,"M":true}}`+"\n", at, at, at, i, 1+i%7)
		fmt.Fprintf(&b, `%d000000 {"stream":"xusdt@depth","data":{"e":"depthUpdate","E":%d,"s":"XUSDT","U":%d,"u":%d,"b":[["%d","%d"]],"a":[]}}`+"\n", at, at, i, i, 90+i%10, i%4)
	}
	return b.Bytes()
}

// shortRecording returns a recording of rueda record.
func shortRecording() []byte {
	return []byte(`{"rueda":"recording","version":1,"began":"2026-11-20T14:30:00Z","epoch":"e7k2","channels":["trades"],"ids":["GGAL|BYMA|24hs"],"instruments":[{"instrument":"GGAL|BYMA|24hs","price_decimals":2,"size_decimals":0}]}
1795184400102400000 {"type":"T","S":"GGAL","I":"GGAL|BYMA|24hs","N":1,"T":"2026-11-20T14:30:00.098123456Z","P":7050,"Z":120,"G":"B"}
1795184400202400000 {"type":"T","S":"GGAL","I":"GGAL|BYMA|24hs","N":2,"T":"2026-11-20T14:30:00.198123456Z","P":7051,"Z":10,"G":"B"}
1795184999000000000 {"recording":"end","rows":2}
`)
}

func packed(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// namedPipe creates a named pipe.
func namedPipe(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// runWith runs a command line with a standard input.
func runWith(ctx context.Context, in io.Reader, args ...string) (status int, out, errs string) {
	var o, e bytes.Buffer
	status = run(ctx, args, command.Streams{In: in, Out: &o, Err: &e})
	return status, o.String(), e.String()
}

var dash = regexp.MustCompile(`(?m)(^|recording |replay |rueda: )-(: | is)`) // the name of standard input

// TestPipes checks that verify and sim fit read standard input and named pipes like files, of any
// format, compressed or not, and longer than what is read ahead.
func TestPipes(t *testing.T) {
	t.Parallel()
	for what, data := range map[string][]byte{
		"capture": capture(600_000), "short capture": capture(5_000), "gzip": packed(t, capture(600_000)),
		"recording": shortRecording(), "packed recording": packed(t, shortRecording()), "empty": nil, "something else": []byte("hello\n"),
		"cut off": packed(t, capture(600_000))[:9_000],
	} {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"verify"}, {"sim", "fit"}} {
			outcome := func(in io.Reader, name string) string {
				status, out, errs := runWith(t.Context(), in, append(args, name)...)
				text := strings.ReplaceAll(fmt.Sprint(status, "\n", out, errs), name, "FILE")
				if name == "-" {
					text = dash.ReplaceAllString(fmt.Sprint(status, "\n", out, errs), "${1}FILE$2")
				}
				return text
			}
			want := outcome(nil, file)
			name := namedPipe(t)
			ended := make(chan error, 1)
			go func() { ended <- os.WriteFile(name, data, 0o600) }()
			if got := outcome(nil, name); got != want {
				t.Errorf("%s of %s from a named pipe:\n%s\nwant\n%s", args, what, got, want)
			}
			<-ended // an error if it is not read to its end
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_, _ = w.Write(data) // an error if it is not read to its end
				ended <- w.Close()
			}()
			if got := outcome(r, "-"); got != want {
				t.Errorf("%s of %s from a pipe:\n%s\nwant\n%s", args, what, got, want)
			}
			_ = r.Close()
			<-ended
			if got := outcome(bytes.NewReader(data), "-"); got != want {
				t.Errorf("%s of %s from a reader:\n%s\nwant\n%s", args, what, got, want)
			}
		}
	}
}

// TestInterruptedPipes checks that the first interrupt ends a command that waits for data of a
// pipe, at its beginning and later.
func TestInterruptedPipes(t *testing.T) {
	t.Parallel()
	data := capture(200_000)
	for _, args := range [][]string{{"verify"}, {"sim", "fit"}, {"replay", "--listen", "127.0.0.1:0", "--speed", "max"}} {
		for _, written := range []int{-1, 0, 10, 100_000} { // -1: nobody has opened the pipe
			for _, stdin := range []bool{false, true} {
				if stdin && written < 0 {
					continue
				}
				t.Run(fmt.Sprintf("%s, %d bytes, %v", args[0], written, stdin), func(t *testing.T) {
					t.Parallel()
					interruptPipe(t, args, data[:max(0, written)], written < 0, stdin)
				})
			}
		}
	}
}

func interruptPipe(t *testing.T, args []string, data []byte, unopened, stdin bool) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	in, name := io.Reader(strings.NewReader("")), "-"
	var w *os.File
	if stdin {
		r, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		in, w = r, writer
	} else {
		name = namedPipe(t)
	}
	ended := make(chan int, 1)
	go func() {
		status, _, _ := runWith(ctx, in, append(args, name)...)
		ended <- status
	}()
	if w == nil && !unopened {
		var err error
		if w, err = os.OpenFile(name, os.O_WRONLY, 0); err != nil {
			t.Fatal(err)
		}
	}
	if w != nil {
		defer w.Close()
		if _, err := w.Write(data); err != nil { // returns when most of it was read
			t.Fatal(err)
		}
	}
	interrupt()
	select {
	case status := <-ended:
		if status != command.ExitInterrupted && args[0] != "replay" {
			t.Errorf("exit status %d", status)
		}
	case <-time.After(patience):
		t.Fatal("it still waits for data")
	}
}

// TestReplayLoopVerifies records a recording that is played repeatedly. Nothing is wrong with its
// rounds, nor between them.
func TestReplayLoopVerifies(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	day, name := filepath.Join(folder, "day.jsonl"), filepath.Join(folder, "rounds.jsonl")
	if err := os.WriteFile(day, capture(30_000), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "replay", day, "--loop", "--listen", "127.0.0.1:0", "--speed", "25")
	address := p.line(`^  REST +(http://\S+)`)[1]
	r := start(t, "record", "XUSDT|BINANCE|SPOT", "-f", name, "--url", address)
	const restart = `"E":"gap","Y":"replay_restarted"`
	waitFor(t, func() bool {
		text, err := os.ReadFile(name)
		return err == nil && bytes.Count(text, []byte(restart)) >= 3
	})
	for _, x := range []*program{r, p} {
		x.stop()
		if status := x.exit(); status != command.ExitOK {
			t.Errorf("ended with %d", status)
		}
	}
	_, list := recorded(t, name)
	books := 0
	for _, body := range list {
		if strings.HasPrefix(body, `{"type":"O"`) {
			books++
		}
	}
	if report := verified(t, name); books < 50 || !strings.Contains(fmt.Sprint(report["figures"]), "gaps") {
		t.Errorf("%d book messages: %v", books, report)
	}
}

// TestReplayKeepsAllDays replays a recording of ten days with a trade on each. The temporary
// journal has all of them, because its bytes alone limit it.
func TestReplayKeepsAllDays(t *testing.T) {
	t.Parallel()
	const id = "AAPL|XNAS|T1"
	day := time.Date(2026, 11, 1, 15, 0, 0, 0, time.UTC)
	var text strings.Builder
	fmt.Fprintf(&text, `{"rueda":"recording","version":1,"program":"x","server":"http://x","began":"2026-11-01T00:00:00Z","epoch":"e1","channels":["trades"],"depth":0,"ids":[%q],`+
		`"instruments":[{"instrument":%[1]q,"symbol":"AAPL","market":"XNAS","term":"T1","settlement_days":1,"name":"Apple","kind":"stock","currency":"USD","multiplier":1,"price_decimals":2,"size_decimals":0,"tick":[[0,0.01]],"lot":1,"min_size":1,"status":"open","channels":["trades"]}],`+
		`"markets":[{"market":"XNAS","timezone":"UTC","terms":[{"term":"T1","settlement_days":1}]}]}`+"\n", id)
	fmt.Fprintf(&text, `%d {"type":"Subscription","code":200,"msg":"Subscribed","epoch":"e1","trades":[%q],"count":{"trades":1}}`+"\n", day.UnixNano()-1, id)
	for n := range 10 {
		at := day.AddDate(0, 0, n)
		fmt.Fprintf(&text, `%d {"type":"T","S":"AAPL","I":%q,"N":%d,"T":%q,"P":100,"Z":10,"X":"%[3]d"}`+"\n", at.UnixNano(), id, n+1, at.Format("2006-01-02T15:04:05.000000000Z"))
	}
	fmt.Fprintf(&text, `%d {"recording":"end","rows":10}`+"\n", day.AddDate(0, 0, 10).UnixNano())
	name := filepath.Join(t.TempDir(), "ten.jsonl")
	if err := os.WriteFile(name, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "replay", name, "--listen", "127.0.0.1:0", "--speed", "max")
	address := p.line(`^  REST +(http://\S+)`)[1]
	p.said(`ended`)
	status, out, _ := execute(t, "trades", id, "--url", address, "-o", "jsonl")
	if n := strings.Count(out, `"type":"T"`); status != command.ExitOK || n != 10 {
		t.Errorf("%d: %d trades of 10\n%s", status, n, out)
	}
	p.stop()
	p.exit()
}
