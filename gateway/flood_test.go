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
	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
)

// childEnv makes the test program run a gateway, for tests that measure a process.
const childEnv = "RUEDA_TEST_GATEWAY"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if err := child(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(openapitest.Main(func() int { return cluster.Main(m) }))
}

// floodLimits allows all logins of the test from one address, and floodData lets them wait as long
// as necessary.
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
	g, err := gateway.New(context.Background(), gateway.Config{
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

// startChild starts a gateway in its own process, which ends with the test.
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

// flood logs in n times in parallel.
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

// TestLoginFloodE2E logs in 200 clients in parallel (a twentieth unless in full). Meanwhile it
// requests readiness and follows the stream. Every login is answered, and memory, readiness and the
// latency of the stream stay within their bounds.
func TestLoginFloodE2E(t *testing.T) {
	pid, rest := startChild(t)
	newClient := func() *literalClient {
		return &literalClient{http: &http.Client{Transport: openapitest.Wrap(&http.Transport{})}, rest: rest, stream: "ws" + strings.TrimPrefix(rest, "http") + "/stream"}
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
	var ready, stream latencies
	watchers.Go(func() { stream = followLatency(ctx, b) })
	watchers.Go(func() { ready = probeReady(ctx, rest) })
	<-time.After(2 * time.Second) // without the flood
	n := count(200)
	began := time.Now()
	took := flood(t, n, newClient)
	resident := peakResident(t, pid)
	cancel()
	b.ws.CloseNow()
	watchers.Wait()

	slots := max(1, runtime.GOMAXPROCS(0)-1)
	memory := 96<<20 + slots*40<<20
	t.Logf("figure: limits raised: %+v %+v", floodLimits(), floodData())
	t.Logf("figure: %d logins in %v; peak resident %d MiB (bound %d MiB, %d slots)",
		n, took.Round(time.Millisecond), resident>>20, memory>>20, slots)
	if resident > memory {
		t.Errorf("peak resident memory %d MiB, bound %d MiB", resident>>20, memory>>20)
	}
	ready.within(t, "readiness", began, 50*time.Millisecond)
	stream.within(t, "stream", began, 25*time.Millisecond)
}

// latencies has measured latencies in order of time.
type latencies []struct {
	at   time.Time
	took time.Duration
}

func (l *latencies) add(took time.Duration) {
	*l = append(*l, struct {
		at   time.Time
		took time.Duration
	}{time.Now(), took})
}

// within compares the latencies since began with a bound. A full run compares the 99th percentile.
// Otherwise other work of the machine may delay single measurements, so the median must be at most
// three times the bound and the earlier median.
func (l latencies) within(t *testing.T, what string, began time.Time, most time.Duration) {
	t.Helper()
	var before, since []time.Duration
	for _, m := range l {
		if m.at.Before(began) {
			before = append(before, m.took)
		} else {
			since = append(since, m.took)
		}
	}
	if len(before) == 0 || len(since) == 0 {
		t.Fatalf("%s: %d measured before, %d since", what, len(before), len(since))
	}
	slices.Sort(before)
	slices.Sort(since)
	p99, median, usual := since[len(since)*99/100], since[len(since)/2], before[len(before)/2]
	t.Logf("figure: %s: p99 %v, median %v of %d; median before %v", what, p99, median, len(since), usual)
	switch {
	case full() && p99 > most:
		t.Errorf("%s: p99 %v, bound %v", what, p99, most)
	case !full() && median > 3*(most+usual):
		t.Errorf("%s: median %v, bound %v", what, median, 3*(most+usual))
	}
}

// followLatency measures the time from each event at the market to its receipt.
func followLatency(ctx context.Context, b *bot) (list latencies) {
	for {
		text, err := b.read(ctx)
		if err != nil {
			return list
		}
		var m struct {
			T time.Time
			R bool
		}
		if json.Unmarshal(text, &m) == nil && !m.T.IsZero() && !m.R {
			list.add(time.Since(m.T))
		}
	}
}

// probeReady asks for readiness every 10 ms.
func probeReady(ctx context.Context, rest string) (list latencies) {
	client := &http.Client{Transport: openapitest.Wrap(&http.Transport{})}
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
			list.add(time.Hour)
			return list
		}
		_, err = io.Copy(io.Discard, res.Body)
		if err = errors.Join(err, res.Body.Close()); err != nil || res.StatusCode != http.StatusOK {
			list.add(time.Hour)
			return list
		}
		list.add(time.Since(began))
	}
}

// peakResident returns the largest resident memory of a process, in bytes.
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
