package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
)

// killFolder is the environment variable with the data folder of a gateway that will be killed.
const killFolder = "RUEDA_TEST_KILL_FOLDER"

// followed is the number of instruments that a client of the killed gateway follows.
const followed = 20

// TestKillE2E kills a gateway under full load, with SIGKILL at 500 random times (8 unless in full),
// and restarts it on the same folder each time. The messages that its client received are in the
// journal byte for byte, and the numbering continues in the same epoch. The client resumes and sees
// each trade once.
func TestKillE2E(t *testing.T) {
	if folder := os.Getenv(killFolder); folder != "" {
		runKilled(t, folder)
		return
	}
	k := &killed{t: t, rng: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))}
	rounds := 8
	if full() {
		rounds = 500
	}
	for i := range rounds {
		if i%killedOften == 0 {
			k.begin()
		}
		if k.round(); t.Failed() {
			return
		}
	}
	received := len(k.numbers.texts)
	k.begin()
	if k.resumed == 0 || k.compared == 0 || k.mixed == 0 || received == 0 {
		t.Fatalf("too little happened: %d resumed, %d compared, %d resumes of mixers, %d messages", k.resumed, k.compared, k.mixed, received)
	}
	t.Logf("figure: kill -9: %d kills, %d trades received, %d compared with the journal, %d rows sent again, %d resumes of clients that do all things",
		k.kills, k.got, k.compared, k.resumed, k.mixed)
}

// killedOften is how many times one gateway is killed before the test begins with an empty folder.
// A start reads the day's journal, which grows by tens of thousands of events a second here.
const killedOften = 25

// begin starts with an empty folder.
func (k *killed) begin() {
	k.folder, k.client, k.epoch, k.position = k.t.TempDir(), literalClient{}, "", ""
	k.seen, k.texts = map[string]uint64{}, map[string]map[uint64]string{}
	for _, m := range k.mixers {
		k.mixed += m.resumed
	}
	k.numbers, k.mixers = &numbered{texts: map[string]string{}}, nil
	for range 2 {
		k.mixers = append(k.mixers, &mixer{k: k, rng: rand.New(rand.NewPCG(k.rng.Uint64(), 2)), seen: map[string]uint64{}})
	}
}

// runKilled runs the gateway until it is killed.
func runKilled(t *testing.T, folder string) {
	config := sim.Config{Seed: uint64(time.Now().UnixNano()), Speed: 600}
	if !full() {
		config.Instruments, config.Speed = followed+5, 300 // it warms up at every start
	}
	source, err := sim.New(config)
	if err != nil {
		t.Fatal(err)
	}
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	if err := seedDemo(t.Context(), data.Users); err != nil && !errors.Is(err, local.ErrExists) {
		t.Fatal(err)
	}
	g, err := gateway.New(t.Context(), gateway.Config{
		Listen: "127.0.0.1:0", Data: data,
		Feeds:   []gateway.Feed{{Name: "sim", Source: source}},
		Journal: gateway.Journal{Folder: filepath.Join(folder, "journal"), Segment: 4 << 20},
		Stream:  gateway.Stream{TradesKept: 1}, // so that much is read from the journal
		Limits:  gateway.Limits{Handshakes: 100_000, MessagesPerSecond: 100_000},
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		OnReady: func(b gateway.Bound) { fmt.Println("at", b.REST, b.Stream) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// killed is the client of a gateway that is killed repeatedly.
type killed struct {
	t      *testing.T
	folder string
	rng    *rand.Rand
	client literalClient
	names  []string

	epoch, position string
	seen            map[string]uint64            // the newest N of each instrument
	texts           map[string]map[uint64]string // received in the last round

	numbers *numbered // by all clients
	mixers  []*mixer

	kills, got, compared, resumed int
	mixed                         int // resumes of the mixers
}

// epochOf returns the epoch, which stays the same over all kills.
func (k *killed) epochOf() string { return k.epoch }

// round starts the gateway, compares, resumes, follows for a while, and kills it.
func (k *killed) round() {
	k.t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKillE2E$")
	cmd.Env = append(os.Environ(), killFolder+"="+k.folder)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait() // the error says that it was killed
		k.kills++
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	var rest, stream string
	if _, serr := fmt.Sscanf(line, "at %s %s", &rest, &stream); serr != nil {
		k.t.Fatalf("the gateway said %q (%v)", line, err)
	}
	k.client.http, k.client.rest, k.client.stream = &http.Client{Transport: openapitest.Wrap(&http.Transport{DisableKeepAlives: true})}, rest, stream
	if k.client.access == "" {
		if err := k.client.login(); err != nil {
			k.t.Fatal(err)
		}
	}
	if k.names == nil {
		k.list()
	}
	for name := range k.texts {
		k.compare(name)
	}
	var others sync.WaitGroup
	for _, m := range k.mixers {
		if k.epoch != "" { // known after the first round
			others.Go(func() { m.mix(k.t) })
		}
	}
	k.follow(time.Duration(20+k.rng.IntN(400))*time.Millisecond, cmd.Process)
	others.Wait()
}

// list chooses the instruments to follow.
func (k *killed) list() {
	var answer struct {
		Data struct {
			Instruments []struct{ Instrument string }
		}
	}
	k.get("/market/instruments?limit=100", &answer)
	for _, in := range answer.Data.Instruments {
		if len(k.names) < followed {
			k.names = append(k.names, in.Instrument)
		}
	}
}

func (k *killed) get(path string, into any) {
	k.t.Helper()
	req, err := http.NewRequest(http.MethodGet, k.client.rest+path, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+k.client.access)
	res, err := k.client.http.Do(req)
	if err != nil {
		k.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		k.t.Fatalf("GET %s: %s %s %v", path, res.Status, body, err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		k.t.Fatalf("GET %s: %v", path, err)
	}
}

// compare checks that the journal has all received messages.
func (k *killed) compare(name string) {
	k.t.Helper()
	texts := k.texts[name]
	if len(texts) == 0 {
		return
	}
	low := ^uint64(0)
	for n := range texts {
		low = min(low, n)
	}
	high := low + uint64(len(texts)) - 1
	for at := low - 1; at < high; {
		var answer struct {
			Data struct{ Trades []json.RawMessage }
		}
		k.get(fmt.Sprintf("/market/trades?instrument=%s&epoch=%s&after_sequence=%d&limit=10000", url.QueryEscape(name), k.epoch, at), &answer)
		if len(answer.Data.Trades) == 0 {
			k.t.Fatalf("kill %d: %s: the journal ends at N %d, the client has %d", k.kills, name, at, high)
		}
		for _, row := range answer.Data.Trades {
			at++
			if want, ok := texts[at]; ok && want != string(row) {
				k.t.Fatalf("kill %d: %s: the journal has\n%s\nthe client received\n%s", k.kills, name, row, want)
			} else if ok {
				k.compared++
			}
		}
	}
	delete(k.texts, name)
}

// follow resumes and reads for a while, until the gateway is killed.
func (k *killed) follow(long time.Duration, p *os.Process) {
	k.t.Helper()
	ws, _, err := websocket.Dial(k.t.Context(), k.client.stream, &websocket.DialOptions{HTTPClient: k.client.http})
	if err != nil {
		k.t.Fatal(err)
	}
	defer ws.CloseNow()
	ws.SetReadLimit(1 << 20)
	b := &bot{k.t, ws}
	b.send(map[string]any{"action": "auth_token", "token": k.client.access})
	subscribe := map[string]any{"action": "subscribe", "trades": k.names}
	if k.epoch != "" {
		subscribe["resume"] = map[string]any{"epoch": k.epoch, "trades": k.seen, "position": k.position}
	}
	b.send(subscribe)
	end := time.AfterFunc(long, func() { _ = p.Kill() })
	defer end.Stop()
	behind := map[string]uint64{} // up to where rows are sent again
	for {
		_, text, err := ws.Read(k.t.Context())
		if err != nil {
			return // it was killed
		}
		var m mixedFrame
		if err := json.Unmarshal(text, &m.frame); err != nil {
			if _, more, end := ws.Read(k.t.Context()); end == nil {
				k.t.Fatalf("kill %d: %v: %.300q, and then %.300q", k.kills, err, text, more)
			}
			return // the library returns the part of a frame that was cut off
		}
		if err := k.numbers.take(&m, text); err != nil {
			k.t.Fatalf("kill %d: %v", k.kills, err)
		}
		switch m.Type {
		case "Subscription":
			if len(m.Lost) > 0 {
				k.t.Fatalf("kill %d: lost %s", k.kills, text)
			}
			if k.epoch != "" && m.Epoch != k.epoch {
				k.t.Fatalf("kill %d: another epoch, %s after %s", k.kills, m.Epoch, k.epoch)
			}
			behind = m.Resumed["trades"]
			if k.epoch == "" { // the mixers read it from then on
				k.epoch = m.Epoch
			}
			if k.position == "" {
				k.position = m.Position
			}
		case "T", "X", "C":
			if last, ok := k.seen[m.I]; ok && m.N != last+1 {
				k.t.Fatalf("kill %d: %s %d after %d", k.kills, m.I, m.N, last)
			}
			if m.N <= behind[m.I] {
				k.resumed++
			}
			k.seen[m.I] = m.N
			if k.texts[m.I] == nil {
				k.texts[m.I] = map[uint64]string{}
			}
			k.texts[m.I][m.N] = string(text)
			k.got++
		case "Error":
			if m.Reason == "slow_client" {
				return // on a busy machine; it is killed all the same
			}
			k.t.Fatalf("kill %d: %s", k.kills, text)
		}
	}
}
