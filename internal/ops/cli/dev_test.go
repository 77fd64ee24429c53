package cli

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

func startDev(t *testing.T, args ...string) (p *program, url string) {
	t.Helper()
	p = start(t, append([]string{"dev", "--listen", "127.0.0.1:0"}, args...)...)
	p.line(`^(Ready in \d+ ms|Running without data: .*)\. Simulated market, seed 42`) // a slow machine has no data yet
	return p, p.line(`^  REST +(http://\S+)`)[1]
}

// startMarket starts a gateway and waits until its market has begun, which a slow machine may do
// later.
func startMarket(t *testing.T, args ...string) (p *program, url string) {
	t.Helper()
	p, url = startDev(t, args...)
	waitFor(t, func() bool {
		res, err := http.Get(url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return p, url
}

func TestDevSaysWhatToTry(t *testing.T) {
	t.Parallel()
	p, url := startDev(t)
	p.line(`^  Stream +ws://\S+/stream$`)
	p.line(`^  Docs +` + url + `/docs$`)
	p.line(`^  Users +demo/demo with all rights, basic/basic with quotes only$`)
	p.line(`^  Instruments +\d+ simulated$`)
	p.line(`watch 'GGAL\|BYMA\|24hs' --url ` + url + `$`)
	p.line(`watch 'AL30\|BYMA\|CI' --book --depth 5 --url `)
	p.line(`curl -s ` + url + `/auth/token`)
	p.stop()
	if status := p.exit(); status != command.ExitOK {
		t.Errorf("ended with %d", status)
	}
}

func TestWatchMovingMarket(t *testing.T) {
	t.Parallel()
	_, url := startMarket(t, "--speed", "20")
	w := start(t, "watch", "*|BYMA|*", "--trades", "--count", "3", "--url", url)
	for range 3 {
		w.line(`^\d\d:\d\d:\d\d\.\d{3}  T  \S+\|BYMA\|\S+ +\S+ x \S+ +(buy|sell) +#\d+$`)
	}
	if status := w.exit(); status != command.ExitOK {
		t.Errorf("ended with %d", status)
	}
	w = start(t, "watch", "GGAL|BYMA|24hs", "--book", "--quotes", "--status", "--depth", "1", "-o", "jsonl", "--count", "40", "--url", url)
	kinds := map[string]int{}
	for line := range w.out {
		var m struct {
			Type string `json:"type"`
			I    string `json:"I"`
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil || m.I != "GGAL|BYMA|24hs" && m.I != "*|BYMA|*" {
			t.Errorf("line %q: %v", line, err)
		}
		kinds[m.Type]++
	}
	if kinds["Q"] == 0 || kinds["O"] == 0 || kinds["H"] == 0 {
		t.Errorf("messages by type: %v", kinds)
	}
}

func TestWatchRefused(t *testing.T) {
	_, url := startMarket(t)
	for _, tc := range []struct {
		name   string
		args   []string
		env    map[string]string
		status int
		talk   string
	}{
		{"unknown instrument", []string{"GGLA|BYMA|24hs"}, nil, command.ExitNotFound, `Did you mean GGAL\|BYMA\|24hs`},
		{"wrong password", []string{"GGAL|BYMA|24hs"}, map[string]string{"RUEDA_PASSWORD": "wrong"}, command.ExitRefused, `invalid_credentials`},
		{"no right", []string{"GGAL|BYMA|24hs", "--trades"}, map[string]string{"RUEDA_USER": "basic", "RUEDA_PASSWORD": "basic"}, command.ExitRefused, `not_entitled`},
		{"bad option", []string{"GGAL|BYMA|24hs", "--book", "--depth", "7"}, nil, command.ExitUsage, `--depth 7: a book has`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for k, v := range tc.env {
				t.Setenv(k, v)
			}
			w := start(t, append([]string{"watch", "--url", url}, tc.args...)...)
			if status := w.exit(); status != tc.status {
				t.Errorf("ended with %d, want %d", status, tc.status)
			}
			w.said(tc.talk)
		})
	}
}

// flaky forwards connections to a server and can close all of them.
type flaky struct {
	net.Listener
	to string

	mu   sync.Mutex
	open []net.Conn
}

func startFlaky(t *testing.T, to string) *flaky {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &flaky{Listener: l, to: to}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", f.to)
			if err != nil {
				from.Close()
				continue
			}
			f.mu.Lock()
			f.open = append(f.open, from, to)
			f.mu.Unlock()
			for _, pair := range [2][2]net.Conn{{from, to}, {to, from}} {
				all.Go(func() {
					_, _ = io.Copy(pair[0], pair[1]) // ends when either side does
					pair[0].Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		l.Close()
		f.cut()
		all.Wait()
	})
	return f
}

func (f *flaky) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.open {
		c.Close()
	}
	f.open = nil
}

// TestWatchResumesE2E repeatedly cuts the connection of a watch. Every trade of every instrument is
// received once and in order, by name and by wildcard.
func TestWatchResumesE2E(t *testing.T) {
	_, url := startMarket(t, "--speed", "50")
	link := startFlaky(t, strings.TrimPrefix(url, "http://"))
	for _, id := range []string{"GGAL|BYMA|24hs", "*|BYMA|24hs"} {
		t.Run(id, func(t *testing.T) {
			w := start(t, "watch", id, "--trades", "-o", "jsonl", "--url", "http://"+link.Addr().String())
			last := map[string]uint64{}
			for cuts := range 4 {
				for range 25 {
					m := w.line(`"type":"([TXC])".*"I":"(\S+?)","N":(\d+)`)
					n, err := strconv.ParseUint(m[3], 10, 64)
					if err != nil {
						t.Fatal(err)
					}
					if before := last[m[2]]; before > 0 && n != before+1 {
						t.Fatalf("after %d cuts: %s came with N %d after %d", cuts, m[2], n, before)
					}
					last[m[2]] = n
				}
				link.cut()
			}
			w.said(`connection lost`)
			w.said(`live again`)
			if talk := w.talk.String(); strings.Contains(talk, "  lost: ") {
				t.Errorf("something was lost:\n%s", talk)
			}
			w.stop()
			if status := w.exit(); status != command.ExitInterrupted {
				t.Errorf("ended with %d", status)
			}
		})
	}
}

// TestDevKeepsToTheUsersOfAFolder checks that dev does not add the demo users to a folder with
// other users.
func TestDevKeepsToTheUsersOfAFolder(t *testing.T) {
	t.Parallel()
	own, others := t.TempDir(), t.TempDir()
	for range 2 { // a new folder, and then the same folder again
		p, _ := startDev(t, "--data", own)
		p.line(`^  Users +demo/demo with all rights`)
		p.stop()
		if status := p.exit(); status != command.ExitOK {
			t.Fatalf("ended with %d", status)
		}
	}
	talk := &transcript{}
	std := command.Streams{In: strings.NewReader("correct horse battery staple\n"), Out: io.Discard, Err: talk}
	if status := run(t.Context(), []string{"user", "add", "ana", "--rights", "all", "--data", others, "--password-stdin"}, std); status != command.ExitOK {
		t.Fatalf("user add: %d: %s", status, talk)
	}
	p, _ := startDev(t, "--data", others)
	p.said(`has other users: demo and basic are not added`)
	p.line(`^  Users +those of `)
	p.stop()
	p.exit()
	var list strings.Builder
	if status := run(t.Context(), []string{"user", "list", "--data", others}, command.Streams{Out: &list, Err: talk}); status != command.ExitOK {
		t.Fatalf("user list: %d: %s", status, talk)
	}
	if got := list.String(); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, "ana\t") {
		t.Errorf("users:\n%s", got)
	}
}

// await waits until a file exists.
func await(t *testing.T, name string) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for late := time.After(patience); ; {
		if _, err := os.Stat(name); err == nil {
			return
		}
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("there is no %s", name)
		}
	}
}

// TestDevGoesOn ends a trading day on a folder and starts again on it. It continues with the next
// day, or fails if market time would go back.
func TestDevGoesOn(t *testing.T) {
	t.Parallel()
	data, hours := t.TempDir(), filepath.Join(t.TempDir(), "hours.json")
	if err := os.WriteFile(hours, []byte(`{"timezone": "America/Argentina/Buenos_Aires", "sessions": [
		{"phase": "pre_open", "start": "10:30", "end": "10:35"}, {"phase": "open", "start": "10:35", "end": "10:50"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	virtual := []string{"--data", data, "--clock", "virtual", "--speed", "10000", "--days", "1", "--instruments", "3", "--calendar", hours}
	day := func(date string, args ...string) {
		t.Helper()
		p, _ := startDev(t, append(args, virtual...)...)
		p.line(`^The last trading day has ended`)
		await(t, filepath.Join(data, "journal", date, "day.idx"))
		p.stop()
		if status := p.exit(); status != command.ExitOK {
			t.Fatalf("ended with %d", status)
		}
	}
	day("2030-11-20", "--start", "2030-11-20")
	day("2030-11-21")
	var out strings.Builder
	talk := &transcript{}
	for _, date := range []string{"2030-11-20", "2030-11-21"} {
		tables := t.TempDir()
		args := []string{"export", "--data", data, "--out", tables, "--date", date, "--format", "csv"}
		if status := run(t.Context(), args, command.Streams{Out: &out, Err: talk}); status != command.ExitOK {
			t.Fatalf("export of %s: %d: %s", date, status, talk)
		}
		bars, err := os.ReadFile(filepath.Join(tables, "type=bars", "date="+date, "market=BYMA", "part-0.csv"))
		if days := strings.Count(string(bars), ",1d,"); err != nil || days != 2 {
			t.Errorf("%s: %d bars of a day, %v", date, days, err)
		}
	}
	if got := out.String(); strings.Count(got, "type=bars") != 4 || strings.Count(got, "type=trades") != 4 {
		t.Errorf("exported:\n%s", got)
	}
	for name, args := range map[string][]string{
		"a day that was": append([]string{"--start", "2030-11-21"}, virtual...),
		"real time":      {"--data", data},
	} {
		p := start(t, append([]string{"dev", "--listen", "127.0.0.1:0"}, args...)...)
		if status := p.exit(); status != command.ExitUsage {
			t.Errorf("%s: ended with %d", name, status)
		}
		p.said(`market time would go back: from 2030-11-2`)
		p.said(`Use another --data folder`)
	}
}

// TestDevAfterAnotherFeed checks that rows of another feed do not determine when the simulated
// exchange may begin, even if the clock of that feed is far ahead.
func TestDevAfterAnotherFeed(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p, _ := startDev(t, "--data", data, "--ndjson", "127.0.0.1:0")
	conn, err := net.Dial("tcp", p.line(`^  JSON lines +(\S+)$`)[1])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// The answer to the last line shows that the trade was published.
	lines := `{"type":"Hello"}
{"type":"F","I":"FAR|TEST|CI","price_decimals":2,"size_decimals":0,"virtual_clock":true}
{"type":"T","I":"FAR|TEST|CI","P":1,"Z":1,"T":"2100-01-01T00:00:00Z"}
x
`
	if _, err := io.WriteString(conn, lines); err != nil {
		t.Fatal(err)
	}
	if answer, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(answer, "line 4") {
		t.Fatalf("answer %q, %v", answer, err)
	}
	p.stop()
	if status := p.exit(); status != command.ExitOK {
		t.Fatalf("ended with %d", status)
	}
	for _, clock := range []string{"real", "virtual"} {
		p, _ := startDev(t, "--data", data, "--clock", clock)
		p.stop()
		if status := p.exit(); status != command.ExitOK {
			t.Errorf("%s clock: ended with %d", clock, status)
		}
	}
}
