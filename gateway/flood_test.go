package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/gateway"
)

// childEnv makes the test program be a gateway of its own, for tests that
// measure a process.
const childEnv = "RUEDA_TEST_GATEWAY"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if err := child(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(cluster.Main(m))
}

// floodLimits lets one address log in as often as the test does, and floodData lets
// the logins wait for as long as they take.
func floodLimits() gateway.Limits {
	return gateway.Limits{LoginsPerMinute: 100_000, LoginBurst: 100_000, Handshakes: 100_000, RequestsPerMinute: 1_000_000}
}

func floodData() gateway.DataConfig {
	return gateway.DataConfig{PasswordQueue: 1600, PasswordWait: time.Minute}
}

// child runs a gateway on the simulated market until its standard input ends.
func child() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	data, err := gateway.OpenData(ctx, floodData())
	if err != nil {
		return err
	}
	defer data.Close()
	if err := seedDemo(ctx, data.Users); err != nil {
		return err
	}
	source, err := sim.New(sim.Config{Seed: 1})
	if err != nil {
		return err
	}
	g, err := gateway.New(gateway.Config{
		Listen: "127.0.0.1:0", Data: data, Limits: floodLimits(),
		Feeds:   []gateway.Feed{{Name: "sim", Source: source}},
		OnReady: func(b gateway.Bound) { fmt.Println(b.REST) },
		Drain:   time.Millisecond,
	})
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return g.Run(ctx)
}

// startChild starts a gateway in a process of its own, which ends with the test.
func startChild(t *testing.T) (pid int, rest string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, strings.TrimSpace(line)
}

// flood logs in n times at once.
func flood(t *testing.T, n int, newClient func() *literalClient) (took time.Duration) {
	t.Helper()
	var logins sync.WaitGroup
	failed := make(chan error, n)
	began := time.Now()
	for range n {
		logins.Go(func() {
			c := newClient()
			defer c.http.CloseIdleConnections()
			failed <- c.login()
		})
	}
	logins.Wait()
	took = time.Since(began)
	for range n {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	return took
}

// TestLoginFloodE2E has 200 clients log in at once (half of them unless in full) and
// meanwhile asks for readiness and follows the stream. Every login is answered, memory stays within
// its bound, and readiness and the stream within theirs.
func TestLoginFloodE2E(t *testing.T) {
	pid, rest := startChild(t)
	newClient := func() *literalClient {
		return &literalClient{http: &http.Client{Transport: &http.Transport{}}, rest: rest, stream: "ws" + strings.TrimPrefix(rest, "http") + "/stream"}
	}
	c := newClient()
	defer c.http.CloseIdleConnections()
	if err := c.login(); err != nil {
		t.Fatal(err)
	}
	b := connect(t, c)
	b.send(map[string]any{"action": "subscribe", "trades": []string{"*|*|*"}, "quotes": []string{"*|*|*"}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var watchers sync.WaitGroup
	calm, stopCalm := context.WithTimeout(t.Context(), 2*time.Second)
	usual := probeReady(calm, rest) // what a machine with other work needs without the flood
	stopCalm()
	var ready, stream []time.Duration
	watchers.Go(func() { stream = followLatency(ctx, b) })
	watchers.Go(func() { ready = probeReady(ctx, rest) })
	n := max(100, count(200))
	took := flood(t, n, newClient)
	resident := peakResident(t, pid)
	cancel()
	b.ws.CloseNow()
	watchers.Wait()

	slots := max(1, runtime.GOMAXPROCS(0)-1)
	memory := 96<<20 + slots*40<<20
	t.Logf("figure: limits raised: %+v %+v", floodLimits(), floodData())
	t.Logf("figure: %d logins in %v; peak resident %d MiB (bound %d MiB, %d slots); readiness p99 %v of %d; stream p99 %v of %d",
		n, took.Round(time.Millisecond), resident>>20, memory>>20, slots, p99(ready), len(ready), p99(stream), len(stream))
	if resident > memory {
		t.Errorf("peak resident memory %d MiB, bound %d MiB", resident>>20, memory>>20)
	}
	if most := bound(50*time.Millisecond) + 3*p99(usual); p99(ready) > most || len(ready) == 0 {
		t.Errorf("readiness p99 %v, bound %v", p99(ready), most)
	}
	if most := bound(25*time.Millisecond) + 3*p99(usual); p99(stream) > most || len(stream) == 0 {
		t.Errorf("stream p99 %v, bound %v", p99(stream), most)
	}
}

func p99(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)*99/100]
}

// followLatency measures the time from each event at the market to its receipt.
func followLatency(ctx context.Context, b *bot) (list []time.Duration) {
	for {
		_, text, err := b.ws.Read(ctx)
		if err != nil {
			return list
		}
		var m struct {
			T time.Time
			R bool
		}
		if json.Unmarshal(text, &m) == nil && !m.T.IsZero() && !m.R {
			list = append(list, time.Since(m.T))
		}
	}
}

// probeReady asks for readiness every 10 ms.
func probeReady(ctx context.Context, rest string) (list []time.Duration) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return list
		case <-tick.C:
		}
		began := time.Now()
		res, err := client.Get(rest + "/readyz")
		if err != nil {
			return append(list, time.Hour)
		}
		_, err = io.Copy(io.Discard, res.Body)
		if err = errors.Join(err, res.Body.Close()); err != nil || res.StatusCode != http.StatusOK {
			return append(list, time.Hour)
		}
		list = append(list, time.Since(began))
	}
}

// peakResident is the most memory a process had resident, in bytes.
func peakResident(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skipf("peak resident memory is read from /proc: %v", err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); f[0] == "VmHWM:" {
			kib, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}
