//go:build linux

package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/gateway"
)

// fullFolder is the environment variable with the data folder of a gateway whose disk will be full.
const fullFolder = "RUEDA_TEST_FULL_FOLDER"

const fullInstrument = "FULL|SIM|24hs"

// TestFullJournalE2E fills the disk of a gateway. Trades are streamed without a gap, the log has a
// warning, and the gateway stays ready. When there is space again, history continues in the same
// epoch and states from which N on it is complete. A gateway that is killed while the disk is full
// begins a new epoch, because it has sent numbers that are not on disk.
func TestFullJournalE2E(t *testing.T) {
	if folder := os.Getenv(fullFolder); folder != "" {
		if err := onSmallDisk(t.Context(), folder); err != nil {
			t.Fatal(err)
		}
		return
	}
	f := &filled{t: t, folder: t.TempDir()}
	f.start()
	epoch := f.subscribe()
	f.trades(30)
	kept := f.history(0)
	if kept.From != 0 || kept.Epoch != epoch || len(kept.Trades) == 0 {
		t.Fatalf("before: %+v", kept)
	}

	f.disk("full")
	f.log.await(t, "the journal is suspended")
	lost := f.newest
	f.trades(50)
	f.probe()
	whole := f.history(0)
	if n := uint64(len(whole.Trades)); n < uint64(len(kept.Trades)) || whole.Trades[n-1].N > f.newest {
		t.Errorf("on the full disk: %d rows, newest streamed %d", n, f.newest)
	}

	f.disk("room")
	f.log.await(t, "the journal stores rows again")
	after := f.history(0)
	if after.Epoch != epoch || after.From <= lost {
		t.Fatalf("with room again: epoch %q after %q, complete from N %d; rows behind %d were lost", after.Epoch, epoch, after.From, lost)
	}
	for f.newest < after.From+20 {
		f.trades(1)
	}
	// From there on each row exists once, including the received ones; before it some are missing.
	rows := f.history(after.From - 1).Trades
	for i, m := range rows {
		if m.N != after.From+uint64(i) {
			t.Fatalf("row %d behind the hole is N %d, want %d", i, m.N, after.From+uint64(i))
		}
	}
	if after.From+uint64(len(rows)) <= f.newest {
		t.Errorf("%d rows from N %d on, and %d was received", len(rows), after.From, f.newest)
	}
	if n := len(f.history(0).Trades); uint64(n) >= f.newest {
		t.Errorf("%d rows up to N %d, and nothing is missing", n, f.newest)
	}

	f.disk("full")
	f.log.await(t, "the journal is suspended")
	f.trades(20)
	f.kill()
	f.start()
	if again := f.subscribe(); again == epoch {
		t.Error("rows were lost before the kill, and the epoch goes on")
	}
	f.trades(10)
	f.kill()
}

// TestKilledBehindFullJournalE2E is like TestFullJournalE2E, but the gateway is killed in the first
// period in which no write succeeds. The next copy of the journal's state then exceeds the limit of
// the process too.
func TestKilledBehindFullJournalE2E(t *testing.T) {
	f := &filled{t: t, folder: t.TempDir()}
	f.start()
	epoch := f.subscribe()
	f.trades(30)
	f.disk("full")
	f.log.await(t, "the journal is suspended")
	f.trades(50)
	seen := f.newest
	f.kill()
	f.start()
	again := f.subscribe()
	f.trades(1)
	if again == epoch {
		t.Errorf("trades up to N %d were streamed before the kill, N %d comes behind it in the same epoch", seen, f.newest)
	}
	f.kill()
}

// onSmallDisk runs a gateway with a trade every 5 ms. Standard input switches the limit of file
// sizes.
func onSmallDisk(ctx context.Context, folder string) error {
	data, err := gateway.OpenData(ctx, gateway.DataConfig{Folder: folder})
	if err != nil {
		return err
	}
	defer data.Close()
	if err := seedDemo(ctx, data.Users); err != nil && !errors.Is(err, local.ErrExists) {
		return err
	}
	g, err := gateway.New(ctx, gateway.Config{
		Listen: "127.0.0.1:0", Data: data,
		Feeds:   []gateway.Feed{{Name: "ticks", Source: metronome{names: []string{fullInstrument}, every: 5 * time.Millisecond}}},
		Journal: gateway.Journal{Folder: filepath.Join(folder, "journal"), Sync: 50 * time.Millisecond},
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, nil)),
		OnReady: func(b gateway.Bound) { fmt.Println("at", b.REST, b.Stream) },
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ran := make(chan error, 1)
	go func() { ran <- g.Run(ctx) }()
	for words := bufio.NewScanner(os.Stdin); words.Scan(); {
		var size syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &size); err != nil {
			return err
		}
		if size.Cur = size.Max; words.Text() == "full" {
			size.Cur = 4096
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &size); err != nil {
			return err
		}
		fmt.Println("done")
	}
	stop()
	return <-ran
}

// filled is the client of that gateway.
type filled struct {
	t      *testing.T
	folder string
	client literalClient
	b      *bot
	log    *lines
	newest uint64 // N of the trade received last; 0: none
	say    io.Writer
	answer *bufio.Reader
	kill   func()
}

func (f *filled) start() {
	f.t.Helper()
	ctx, kill := context.WithCancel(f.t.Context())
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestFullJournalE2E$")
	cmd.Env = append(os.Environ(), fullFolder+"="+f.folder)
	f.log = &lines{more: make(chan struct{}, 1)}
	cmd.Stderr = f.log
	in, err := cmd.StdinPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.kill = sync.OnceFunc(func() {
		kill()
		_ = cmd.Wait() // the error says that it was killed
	})
	f.t.Cleanup(f.kill)
	f.say, f.answer = in, bufio.NewReader(out)
	line, err := f.answer.ReadString('\n')
	var rest, stream string
	if _, serr := fmt.Sscanf(line, "at %s %s", &rest, &stream); serr != nil {
		f.t.Fatalf("the gateway said %q (%v); %s", line, err, f.log)
	}
	f.client = literalClient{http: &http.Client{}, rest: rest, stream: stream}
	f.t.Cleanup(f.client.http.CloseIdleConnections)
	if err := f.client.login(); err != nil {
		f.t.Fatal(err)
	}
}

// disk switches the limit of file sizes.
func (f *filled) disk(word string) {
	f.t.Helper()
	if _, err := fmt.Fprintln(f.say, word); err != nil {
		f.t.Fatal(err)
	}
	if line, err := f.answer.ReadString('\n'); line != "done\n" {
		f.t.Fatalf("%q %v", line, err)
	}
}

// subscribe subscribes to the trades and returns their epoch.
func (f *filled) subscribe() (epoch string) {
	f.t.Helper()
	f.b, f.newest = connect(f.t, &f.client), 0
	f.b.send(map[string]any{"action": "subscribe", "trades": []string{fullInstrument}})
	for {
		text, err := f.b.read(f.t.Context())
		if err != nil {
			f.t.Fatal(err)
		}
		var m struct{ Type, Epoch string }
		if err := json.Unmarshal(text, &m); err != nil {
			f.t.Fatal(err)
		}
		if m.Type == "Subscription" && m.Epoch != "" {
			return m.Epoch
		}
	}
}

// trades reads n trades without a gap.
func (f *filled) trades(n int) {
	f.t.Helper()
	for n > 0 {
		text, err := f.b.read(f.t.Context())
		if err != nil {
			f.t.Fatal(err)
		}
		var m spoken
		if err := json.Unmarshal(text, &m); err != nil {
			f.t.Fatal(err)
		}
		if m.Type != "T" || m.R {
			continue
		}
		if f.newest > 0 && m.N != f.newest+1 {
			f.t.Fatalf("trade N %d behind %d", m.N, f.newest)
		}
		f.newest = m.N
		n--
	}
}

// historyPage is a page of history.
type historyPage struct {
	Epoch  string
	From   uint64 `json:"complete_from"`
	Trades []spoken
}

func (f *filled) history(after uint64) historyPage {
	f.t.Helper()
	path := fmt.Sprintf("/market/trades?limit=10000&after_sequence=%d&instrument=%s", after, url.QueryEscape(fullInstrument))
	status, body := f.client.do(f.t, http.MethodGet, path, "")
	var answer struct{ Data historyPage }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK {
		f.t.Fatalf("GET %s: %d %.300s %v", path, status, body, err)
	}
	return answer.Data
}

// probe checks that the gateway is live and ready.
func (f *filled) probe() {
	f.t.Helper()
	for _, path := range []string{"/livez", "/readyz"} {
		if status, body := f.client.do(f.t, http.MethodGet, path, ""); status != http.StatusOK {
			f.t.Errorf("GET %s: %d %s", path, status, body)
		}
	}
}

// lines is a log that a test can wait for.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await waits for a text in the log and discards the log up to it.
func (l *lines) await(t *testing.T, words string) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		l.mu.Lock()
		found := strings.Contains(l.text.String(), words)
		if found {
			l.text.Reset()
		}
		l.mu.Unlock()
		if found {
			return
		}
		select {
		case <-l.more:
		case <-late:
			t.Fatalf("the log does not tell %q: %s", words, l)
		}
	}
}
