//go:build linux

package cluster

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ruedahq/rueda/tests/chaos/check"
	"github.com/ruedahq/rueda/tests/chaos/single"
)

var (
	duration    = flag.Duration("duration", time.Minute, "how long the faults of a run last")
	seed        = flag.Uint64("seed", uint64(time.Now().UnixNano()%1_000_000), "seed of the market and the faults")
	clients     = flag.Int("clients", 12, "number of clients")
	emptyStarts = flag.Int("starts", 3, "starts of an empty edge")
)

func TestMain(m *testing.M) {
	if done, err := RunNats(); done {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	os.Exit(m.Run())
}

// start starts a cluster for a test, and keeps the folder with the logs if the test fails.
func start(t *testing.T, edges int) (c *Cluster) {
	t.Helper()
	folder, err := os.MkdirTemp("", "chaos-cluster-")
	if err != nil {
		t.Fatal(err)
	}
	program, err := single.Program(folder)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	c, err = New(program, folder, edges)
	if errors.Is(err, ErrNoPostgres) && os.Getenv("RUEDA_REQUIRE_ALL") == "" {
		_ = os.RemoveAll(folder)
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("figure: the cluster is ready after %v", time.Since(began).Round(100*time.Millisecond))
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the logs are in %s", folder)
		} else if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	return c
}

// judged fails the test if there are violations, and prints the figures.
func judged(t *testing.T, report *check.Report) {
	t.Helper()
	t.Logf("figure: seed %d: %s", *seed, report)
	n, first := report.Violations()
	for _, text := range first {
		t.Error(text)
	}
	if n > 0 {
		t.Errorf("%d violations with -seed %d", n, *seed)
	}
}

// TestClusterE2E runs a cluster with faults, and checks all that its nodes say.
func TestClusterE2E(t *testing.T) {
	c := start(t, 2)
	report := check.NewReport()
	if err := c.Chaos(t.Context(), Config{Seed: *seed, Duration: *duration, Clients: *clients, Report: report, Logf: t.Logf}); err != nil {
		t.Error(err)
	}
	judged(t, report)
}

// TestEmptyEdgesE2E asks an edge without data from its start on.
func TestEmptyEdgesE2E(t *testing.T) {
	c := start(t, 1)
	report := check.NewReport()
	if err := c.EmptyEdges(t.Context(), *emptyStarts, Config{Seed: *seed, Report: report, Logf: t.Logf}); err != nil {
		t.Error(err)
	}
	judged(t, report)
}
