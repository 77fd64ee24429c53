package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
	"github.com/ruedahq/rueda/market"
)

func TestMain(m *testing.M) { os.Exit(openapitest.Main(m.Run)) }

// metronome is a feed with a trade of each instrument at an interval. The size of a trade counts
// the trades of all its runs, so that each one differs.
type metronome struct {
	names []string
	size  *market.Size
}

func (m metronome) Run(ctx context.Context, sink feed.Sink) error {
	events := make([]market.Event, len(m.names))
	for i, name := range m.names {
		id, err := market.ParseInstrumentID(name)
		if err != nil {
			return err
		}
		h, err := sink.Define(market.Instrument{ID: id, PriceDecimals: 2, NoBook: true})
		if err != nil {
			return err
		}
		events[i] = market.Event{Kind: market.KindTrade, Handle: h, Price: 7050 * market.Scale}
	}
	beat := time.NewTicker(10 * time.Millisecond)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-beat.C:
			*m.size += market.Scale
			for i := range events {
				events[i].Time, events[i].Size = now.UnixNano(), *m.size
			}
			if err := sink.Publish(events); err != nil {
				return err
			}
		}
	}
}

// server is a gateway that is restarted at one address.
type server struct {
	t      *testing.T
	listen string
	feed   metronome
	stop   func()
}

// start starts the gateway with the journal in a folder, and waits until it is ready.
func (s *server) start(folder string) {
	s.t.Helper()
	data, err := gateway.OpenData(s.t.Context(), gateway.DataConfig{})
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = data.Users.Add(s.t.Context(), local.NewUser{
		Username: "demo", Password: "demo-password", Scopes: []string{broker.ScopeRead, broker.ScopeHistory},
		Entitlements: []broker.Entitlement{{Market: "*", Trades: true}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ready, ended := make(chan gateway.Bound, 1), make(chan error, 1)
	g, err := gateway.New(s.t.Context(), gateway.Config{
		Listen: s.listen, Data: data, Drain: 50 * time.Millisecond,
		Feeds:   []gateway.Feed{{Name: "metronome", Source: s.feed}},
		Journal: gateway.Journal{Folder: filepath.Join(folder, "journal")},
		Faults:  func(string, market.InstrumentID) (string, error) { return "", errors.ErrUnsupported },
		OnReady: func(b gateway.Bound) { ready <- b },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- g.Run(ctx) }()
	s.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("run: %v", err)
		}
		if err := data.Close(); err != nil {
			s.t.Error(err)
		}
	}
	select {
	case b := <-ready:
		s.listen = b.Address
	case err := <-ended:
		s.t.Fatalf("run: %v", err)
	}
}

// journey is what the test knows of the client's output.
type journey struct {
	t     *testing.T
	lines chan string
	last  map[string]uint64            // N by instrument; no entry: any N may follow
	sizes map[string]map[uint64]string // by instrument and N, in this epoch
	lost  map[string]bool              // instruments of which it reported a loss
	said  string                       // other lines
}

// read reads lines until a condition holds.
func (j *journey) read(what string, until func() bool) {
	j.t.Helper()
	late := time.After(time.Minute)
	for !until() {
		select {
		case line := <-j.lines:
			j.line(line)
		case <-late:
			j.t.Fatalf("%s: the client said %s", what, j.said)
		}
	}
}

// line checks a line: trades are consecutive, except where a loss was reported.
func (j *journey) line(line string) {
	switch words := strings.Fields(line); words[0] {
	case "T":
		id := words[1]
		n, err := strconv.ParseUint(words[2], 10, 64)
		if err != nil {
			j.t.Error(err)
		}
		if last, known := j.last[id]; known && n != last+1 {
			j.t.Errorf("%s: trade %d after %d", id, n, last)
		}
		j.last[id] = n
		j.sizes[id][n] = words[4]
	case "lost":
		id := words[1]
		var lost struct{ From, To uint64 }
		if err := json.Unmarshal([]byte(words[2]), &lost); err != nil {
			j.t.Error(err)
		}
		if last, known := j.last[id]; known && lost.To == 0 && lost.From != last+1 {
			j.t.Errorf("%s: lost from %d after %d", id, lost.From, last)
		}
		delete(j.last, id)
		j.lost[id], j.sizes[id] = true, map[uint64]string{}
		j.said += line + "\n"
	default:
		j.said += line + "\n"
	}
}

// more reads n further trades of each instrument.
func (j *journey) more(what string, n int) {
	j.t.Helper()
	want := map[string]int{}
	for id, sizes := range j.sizes {
		want[id] = len(sizes) + n
	}
	j.read(what, func() bool {
		for id, n := range want {
			if len(j.sizes[id]) < n {
				return false
			}
		}
		return true
	})
}

// TestFirstClientE2E runs the client of the tutorial through a missing trade, a restart of the
// gateway and the loss of its journal. It prints each trade once, as REST has it, or reports the
// loss.
func TestFirstClientE2E(t *testing.T) {
	t.Parallel()
	names := []string{"GGAL|BYMA|24hs", "AL30|BYMA|CI"}
	s := &server{t: t, listen: "127.71.0.1:0", feed: metronome{names, new(market.Size)}}
	folder := t.TempDir()
	s.start(folder)
	j := &journey{t: t, lines: run(t, s.listen), last: map[string]uint64{}, sizes: map[string]map[uint64]string{}, lost: map[string]bool{}}
	for _, id := range names {
		j.sizes[id] = map[uint64]string{}
	}
	defer func() { s.stop() }()

	j.more("the first trades", 5)
	omitTrade(t, s.listen)
	j.read("a gap", func() bool { return strings.Contains(j.said, "gap in ") })
	j.more("trades after the gap", 20)
	s.stop()
	s.start(folder)
	j.more("trades after the restart", 20)
	if len(j.lost) > 0 {
		t.Errorf("the client lost something: %s", j.said)
	}
	for _, id := range names {
		compare(t, s.listen, id, j.sizes[id])
	}
	s.stop()
	s.start(t.TempDir()) // a new epoch
	j.read("the loss", func() bool { return len(j.lost) == len(names) })
	j.more("trades of the new epoch", 5)
	if !strings.Contains(j.said, "epoch_changed") {
		t.Errorf("the client said %s", j.said)
	}
}

// run builds and runs the client, until the test ends. It returns the lines that the client prints.
func run(t *testing.T, address string) chan string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "first-client")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	client := exec.Command(program, "http://"+address, "demo", "demo-password")
	out, err := client.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	lines, ended := make(chan string), make(chan struct{})
	go func() {
		defer close(ended)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			select {
			case lines <- scanner.Text():
			case <-t.Context().Done():
			}
		}
	}()
	t.Cleanup(func() {
		if err := client.Process.Kill(); err != nil {
			t.Error(err)
		}
		<-ended
		_ = client.Wait() // it was killed
	})
	return lines
}

// access logs in and returns an access token.
func access(t *testing.T, address string) string {
	t.Helper()
	token, err := (&client{gateway: "http://" + address, username: "demo", password: "demo-password"}).token()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// omitTrade has the gateway omit a trade message to the client.
func omitTrade(t *testing.T, address string) {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), "ws://"+address+"/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	for _, request := range []map[string]any{
		{"action": "auth_token", "token": access(t, address)}, {"action": "sim", "fault": "gap", "others": true},
	} {
		var m message
		if err := errors.Join(wsjson.Write(t.Context(), conn, request), wsjson.Read(t.Context(), conn, &m)); err != nil || m.Type == "Error" {
			t.Fatalf("%v: %v, %s", request, err, m.Reason)
		}
	}
}

// compare checks that the trades of an instrument are those that REST has, with their sizes.
func compare(t *testing.T, address, id string, sizes map[uint64]string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"http://"+address+"/market/trades?limit=10000&instrument="+strings.ReplaceAll(id, "|", "%7C"), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+access(t, address))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var page struct {
		Data struct{ Trades []message }
	}
	if err := json.NewDecoder(res.Body).Decode(&page); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, m := range page.Data.Trades {
		if got, ok := sizes[m.N]; ok {
			found++
			if got != string(m.Z) {
				t.Errorf("%s: trade %d has size %s on the stream and %s over REST", id, m.N, got, m.Z)
			}
		}
	}
	if found != len(sizes) || found < 45 {
		t.Errorf("%s: REST has %d of %d trades", id, found, len(sizes))
	}
}
