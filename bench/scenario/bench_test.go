package scenario_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/bench/host"
	"github.com/ruedahq/rueda/bench/proc"
	"github.com/ruedahq/rueda/bench/scenario"
)

// childEnv makes the test program run one of the programs of a measurement.
const childEnv = "RUEDA_TEST_BENCH"

// otherVersion as an argument makes a serving program one with another version of the protocol.
const otherVersion = "other-version"

func serveOtherVersion() error {
	return proc.Serve(os.Stdin, os.Stdout, map[string]proc.Handler{
		"start": proc.Handle(func(host.Config) (*host.Started, error) { return &host.Started{Version: host.Version + 6}, nil }),
	})
}

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		name := os.Args[len(os.Args)-1]
		role := func() error { return scenario.Role(name, os.Stdin, os.Stdout) }
		if slices.Contains(os.Args, otherVersion) && name == scenario.RoleServe {
			role = serveOtherVersion
		}
		if err := role(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// tiny returns options for a measurement without meaningful figures.
func tiny(t *testing.T, conns int) scenario.Options {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("measurements read /proc/ and use epoll")
	}
	return scenario.Options{
		Program: []string{os.Args[0]}, Env: []string{childEnv + "=1"},
		Runs: 1, Window: 100 * time.Millisecond, Warmup: 50 * time.Millisecond, Conns: conns,
		Heartbeats: 200 * time.Millisecond, Talk: t.Output(),
	}
}

// good checks that a report has no wrong run and that all runs counted something. Tests do not
// judge bounds.
func good(t *testing.T, r *scenario.Report, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if r.Wrong() {
		t.Error(text.String())
	}
	for _, c := range r.Cases {
		for _, run := range append(c.Ceiling, c.Rueda...) {
			if run.Deliveries == 0 {
				t.Errorf("%s: nothing was delivered", c.Name)
			}
		}
	}
	var out bytes.Buffer
	if err := r.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var back scenario.Report
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || len(back.Cases) != len(r.Cases) {
		t.Errorf("the report does not come back from JSON: %v", err)
	}
}

func TestCeilingE2E(t *testing.T) {
	r, err := scenario.Ceiling(t.Context(), tiny(t, 8))
	good(t, r, err)
}

func TestFanoutE2E(t *testing.T) {
	for only, window := range map[string]time.Duration{
		"in step singles": 200 * time.Millisecond, "burst16": 200 * time.Millisecond,
		"spread": 3 * time.Second, // the simulated market starts slowly
	} {
		o := tiny(t, 8)
		o.Only, o.Window = only, window
		r, err := scenario.Fanout(t.Context(), o)
		good(t, r, err)
	}
}

func TestLatencyE2E(t *testing.T) {
	o := tiny(t, 8)
	o.Window = 300 * time.Millisecond
	r, err := scenario.Latency(t.Context(), o)
	good(t, r, err)
}

func TestIdleE2E(t *testing.T) {
	r, err := scenario.Idle(t.Context(), tiny(t, 20))
	good(t, r, err)
	for _, c := range r.Cases {
		if len(c.Figures) == 0 {
			t.Errorf("%s has no figures", c.Name)
		}
	}
}

func TestConnectE2E(t *testing.T) {
	r, err := scenario.Connect(t.Context(), tiny(t, 50))
	good(t, r, err)
}

// TestSlowE2E makes readers stop and read slowly. In this short time they need not be cut off.
func TestSlowE2E(t *testing.T) {
	o := tiny(t, 20)
	o.SlowFor = 300 * time.Millisecond
	r, err := scenario.Slow(t.Context(), o)
	good(t, r, err)
}

// TestHostileE2E makes an attack of each kind: with messages, with frames, and without reading.
func TestHostileE2E(t *testing.T) {
	for _, only := range []string{"resyncs", "pings of RFC 6455", "not read"} {
		o := tiny(t, 5)
		o.Only, o.Window = only, 300*time.Millisecond
		r, err := scenario.Hostile(t.Context(), o)
		good(t, r, err)
		if len(r.Cases) != 1 || len(r.Checks) != 3 {
			t.Fatalf("%s: %d attacks, %d checks", only, len(r.Cases), len(r.Checks))
		}
		c := r.Cases[0]
		if c.Attacked.Rate <= 0 || len(c.Attacked.Pings[0]) != 1 || len(c.Attacked.Pings[1]) != 1 || c.Old[0].Deliveries+c.New[0].Deliveries == 0 {
			t.Errorf("%s: %+v, %+v, %+v", only, c.Attacked, c.Old[0], c.New[0])
		}
	}
}

func TestResumeE2E(t *testing.T) {
	r, err := scenario.Resume(t.Context(), tiny(t, 5))
	good(t, r, err)
	if r.Failed() {
		t.Errorf("%+v", r.Checks)
	}
}

// TestMillionE2E uses 50 connections in three pairs of processes.
func TestMillionE2E(t *testing.T) {
	o := tiny(t, 50)
	o.PerProcess = 20
	r, err := scenario.Million(t.Context(), o)
	good(t, r, err)
	if r.Failed() {
		t.Errorf("%+v %v", r.Checks, r.Notes)
	}
}

// TestVerdicts checks that bounds are judged only at the default sizes, and never without a sample.
func TestVerdicts(t *testing.T) {
	r := &scenario.Report{What: "slow", Reduced: "50 connections", Checks: []scenario.Check{
		{Name: "complete", Pass: true, Text: "all"},
		{Name: "age", Unmeasured: true, Text: "not measured: no quotes in the window"},
		{Name: "p99", Informal: true, Text: "2.0, at most 1.0"},
	}}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"PASS  complete", "-     age       not measured: no quotes", "\nnot the defaults: 50 connections\n", "bounds are for the default sizes, ", "  p99  2.0"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report does not say %q:\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "FAIL") || r.Missed() {
		t.Errorf("a bound is missed:\n%s", text.String())
	}
}

// TestOnly checks that unknown workloads are refused before anything starts.
func TestOnly(t *testing.T) {
	for what, measure := range map[string]func(context.Context, scenario.Options) (*scenario.Report, error){
		"compare": scenario.Compare, "ceiling": scenario.Ceiling, "fanout": scenario.Fanout, "latency": scenario.Latency, "idle": scenario.Idle, "slow": scenario.Slow, "hostile": scenario.Hostile,
	} {
		_, err := measure(t.Context(), scenario.Options{Only: "nosuch"})
		if u := (*scenario.UnknownWorkload)(nil); !errors.As(err, &u) || len(u.Names) == 0 {
			t.Errorf("%s: %v", what, err)
		}
	}
}
