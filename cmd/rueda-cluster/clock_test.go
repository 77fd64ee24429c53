package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ruedahq/rueda/client"
)

// clockAhead is how many seconds the clock of a process of wrongClocks is ahead.
const clockAhead = "RUEDA_TEST_CLOCK_AHEAD"

// readClockAhead is a file of package time in that program.
const readClockAhead = `package time

import "syscall"

var clockAhead = func() (seconds int64) {
	text, _ := syscall.Getenv("` + clockAhead + `")
	for _, c := range []byte(text) {
		seconds = 10*seconds + int64(c-'0')
	}
	return seconds
}()
`

// wrongClocks builds the program with a time.Now that adds clockAhead to the clock of the machine,
// as on a machine whose clock is wrong.
func wrongClocks(t *testing.T) (program string) {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	folder := t.TempDir()
	text, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	const read = "sec, nsec, mono := runtimeNow()\n"
	if n := strings.Count(string(text), read); n != 1 {
		t.Fatalf("package time reads the clock in %d places, not in one", n)
	}
	replace := map[string]string{}
	for name, text := range map[string]string{"time.go": strings.Replace(string(text), read, read+"\tsec += clockAhead\n", 1), "ahead.go": readClockAhead} {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(source, name)] = file
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "overlay.json"), overlay, 0o600)
	}
	program = filepath.Join(folder, "rueda")
	if err == nil {
		err = build("../..", program, "-overlay", filepath.Join(folder, "overlay.json"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// checkClock checks how far the clock of a node is ahead, as it says itself.
func checkClock(t *testing.T, p *process, ahead time.Duration) {
	t.Helper()
	answer, err := http.Get("http://" + p.address + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if d := time.Until(date) - ahead; err != nil || d.Abs() > time.Minute {
		t.Fatalf("the clock of %s says %v, %v; it should be %v ahead", p.name, date, err, ahead)
	}
}

// TestClocksApartE2E runs a cluster of two sequencers and two edges, one of each with a clock that is
// ten minutes ahead. A user with delayed data gets each trade once on each edge, and none before its
// delay has passed, also when the other sequencer takes over, in both directions.
func TestClocksApartE2E(t *testing.T) {
	const apart = 10 * time.Minute
	clocks := map[string]time.Duration{"sequencer-1": apart, "edge-1": apart}
	r := startRig(t, rigOptions{nats: 1, edges: 2, program: wrongClocks(t), delays: true, clocks: clocks})
	for _, p := range r.nodes {
		checkClock(t, p, clocks[p.name])
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer func() { cancel(); running.Wait() }()
	source := r.produce(ctx, &running, 20*time.Millisecond, true)
	all := make([]*delayed, len(r.edges))
	for i, p := range r.edges {
		all[i] = followDelayed(ctx, t, &running, p, source)
	}
	leaders := map[string]bool{}
	for range 4 {
		r.awaitDelayed(all, 150)
		leader := r.leader()
		leaders[leader] = true
		p := r.nodes[0]
		if p.name != leader {
			p = r.nodes[1]
		}
		p.signal(syscall.SIGKILL)
		r.awaitDelayed(all, 150)
		p.start(t)
		r.awaitReady(time.Minute)
	}
	cancel()
	running.Wait()
	if len(leaders) != 2 {
		t.Errorf("only %v have led", leaders)
	}
	for i, f := range all {
		for _, text := range f.wrong {
			t.Errorf("%s: %s", r.edges[i].name, text)
		}
		t.Logf("figure: %s: %d trades with a delay of %v, the earliest %v after it was sent", r.edges[i].name, f.count, dataDelay, f.least.Round(time.Millisecond))
	}
}

// delayed is a client that receives the trades of a producer after a delay.
type delayed struct {
	mu    sync.Mutex
	count int
	least time.Duration // from sending a trade to receiving it
	wrong []string
}

// received returns the number of trades, and what was wrong with them.
func (f *delayed) received() (count int, wrong []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count, slices.Clone(f.wrong)
}

// clockError is how much too early a delay may end: the clock of the log gains at most a
// thousandth of the time, and has steps of a batch.
const clockError = 10 * time.Millisecond

// followDelayed starts a client on one edge.
func followDelayed(ctx context.Context, t *testing.T, running *sync.WaitGroup, p *process, source *producer) *delayed {
	t.Helper()
	f := &delayed{least: time.Hour}
	c, err := client.New([]string{"http://" + p.address}, client.Options{Username: lateUser.Username, Password: client.Secret(lateUser.Password), Strict: true})
	if err == nil {
		err = c.Subscribe(client.Set{Trades: []string{ownInstrument}})
	}
	if err != nil {
		t.Fatal(err)
	}
	fail := func(format string, args ...any) { f.wrong = append(f.wrong, fmt.Sprintf(format, args...)) }
	running.Go(func() {
		last := uint64(0)
		for e := range c.Events(ctx) {
			f.mu.Lock()
			switch e := e.(type) {
			case *client.Trade:
				var n uint64
				if _, err := fmt.Sscan(e.ID, &n); err != nil || last > 0 && n != last+1 {
					fail("trade %q after %d", e.ID, last)
					break
				}
				age := time.Since(source.sentAt(n))
				f.least = min(f.least, age)
				if age < dataDelay-clockError {
					fail("trade %d came %v after it was sent", n, age)
				}
				last, f.count = n, f.count+1
			case client.Lost:
				fail("lost %v", e)
			}
			f.mu.Unlock()
		}
		if err := c.Err(); err != nil && ctx.Err() == nil {
			f.mu.Lock()
			fail("the client ended: %v", err)
			f.mu.Unlock()
		}
	})
	return f
}

// awaitDelayed waits until all clients have received n more trades.
func (r *rig) awaitDelayed(all []*delayed, n int) {
	r.t.Helper()
	for i, f := range all {
		count, _ := f.received()
		want := count + n
		eventually(r.t, fmt.Sprintf("%s has sent %d trades", r.edges[i].name, want), func() bool {
			count, wrong := f.received()
			if len(wrong) > 0 {
				r.t.Fatalf("%s: %s", r.edges[i].name, wrong[0])
			}
			return count >= want
		})
	}
}
