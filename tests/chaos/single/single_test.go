//go:build linux

package single

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ruedahq/rueda/tests/chaos/check"
)

var (
	duration = flag.Duration("duration", time.Minute, "how long the faults of a run last")
	seed     = flag.Uint64("seed", uint64(time.Now().UnixNano()%1_000_000), "seed of the market and the faults")
	damages  = flag.Int("damages", 20, "number of damaged data folders")
	clients  = flag.Int("clients", 16, "number of clients")
)

// judged fails the test if there are violations, and prints the figures.
func judged(t *testing.T, report *check.Report, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("seed %d: %v", *seed, err)
	}
	if report == nil {
		return
	}
	t.Logf("figure: seed %d: %s", *seed, report)
	if n, first := report.Violations(); n > 0 {
		t.Errorf("%d violations with -seed %d; the first ones:", n, *seed)
		for _, text := range first {
			t.Error(text)
		}
	}
}

// folder is one for the data of a test, which stays if the test fails.
func folder(t *testing.T) string {
	t.Helper()
	name, err := os.MkdirTemp("", "chaos-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the logs are in %s", name)
		} else if err := os.RemoveAll(name); err != nil {
			t.Error(err)
		}
	})
	return name
}

// config is that of a test.
func config(t *testing.T) Config {
	t.Helper()
	in := folder(t)
	program, err := Program(in)
	if err != nil {
		t.Fatal(err)
	}
	return Config{Program: program, Folder: filepath.Join(in, "gateway"), Seed: *seed, Duration: *duration, Clients: *clients, Logf: t.Logf}
}

// TestSingleE2E runs one process with kills, ends, pauses and connections that break.
func TestSingleE2E(t *testing.T) {
	t.Parallel()
	report, err := Run(t.Context(), config(t))
	judged(t, report, err)
}

// TestFullE2E runs one process whose disk is full now and then.
func TestFullE2E(t *testing.T) {
	t.Parallel()
	c := config(t)
	c.Duration /= 2
	report, err := Full(t.Context(), c)
	judged(t, report, err)
}

// TestDamageE2E starts the program on data folders in which one file is damaged.
func TestDamageE2E(t *testing.T) {
	t.Parallel()
	report, err := Damage(t.Context(), config(t), *damages)
	judged(t, report, err)
}
