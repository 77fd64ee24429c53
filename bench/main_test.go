package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/bench/scenario"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// TestBenchMistakes checks that mistakes are rejected before anything is measured, with advice.
func TestBenchMistakes(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"fanout -n 0":                 "--runs must be at least 1",
		"fanout --window -1s":         "--window must be above 0",
		"latency --warmup -1s":        "--warmup must be above 0",
		"resume --conns -1":           "--conns must be at least 1",
		"slow --conns 2":              "--conns must be at least 4",
		"connect --procs -1":          "--procs must be at least 1",
		"slow --only nosuch":          "There are: stopped; tenth",
		"fanout --only nosuch":        "wildcard of 612",
		"ceiling --tls-by-goroutines": "unknown flag",
		"ceiling --io-uring":          "unknown flag",
		"ceiling --profile x":         "unknown flag",
		"compare one":                 "needs the files of two programs",
		"compare no/such no/such":     "no/such",
		"compare -n 8 no/such x":      "--runs must be at least 9",
		"compare --max-runs 1001 a b": "--runs and --max-runs must be at most 1000",
		"compare --warmup 0s a b":     "--warmup must be above 0",
		"compare --profile x a b":     "unknown flag",
	} {
		t.Run(line, func(t *testing.T) {
			var out, talk bytes.Buffer
			status := run(t.Context(), strings.Fields(line), command.Streams{In: strings.NewReader(""), Out: &out, Err: &talk})
			if status != command.ExitUsage || !strings.Contains(talk.String(), want) {
				t.Errorf("status %d: %s%s", status, out.String(), talk.String())
			}
		})
	}
}

// TestBenchHelp checks that the help of each measurement has its workloads, duration and bounds.
func TestBenchHelp(t *testing.T) {
	t.Parallel()
	for _, b := range benchmarks() {
		long := benchHelp(&b)
		for _, want := range []string{"By default it", "ound"} {
			if !strings.Contains(strings.Join(strings.Fields(long), " "), want) {
				t.Errorf("%s: the help does not say %q", b.name, want)
			}
		}
		if b.takes&takesOnly == 0 {
			continue
		}
		for _, name := range scenario.Workloads(b.name, scenario.Options{}) {
			if !strings.Contains(long, name) {
				t.Errorf("%s: the help does not have %q", b.name, name)
			}
		}
	}
}

// TestCompareFlags checks that the help of a comparison has the bounds of its flags, and what
// --conns changes. They must be known before the programs are built.
func TestCompareFlags(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	status := run(t.Context(), []string{"compare", "--help"}, command.Streams{In: strings.NewReader(""), Out: &out, Err: t.Output()})
	for flag, want := range map[string]string{
		"--runs": "at least 9", "--max-runs": "at most 1000", "--window": "above 0", "--warmup": "above 0", "--conns": "fewer rows for start",
	} {
		found := false
		for line := range strings.Lines(regexp.MustCompile(`\n {20,}`).ReplaceAllString(out.String(), " ")) {
			found = found || strings.Contains(line, flag+" ") && strings.Contains(line, want)
		}
		if !found || status != command.ExitOK {
			t.Errorf("status %d: the help of %s does not say %q:\n%s", status, flag, want, out.String())
		}
	}
}

// TestBenchIncomplete checks that a comparison that ends early writes what it measured, also over
// an older report, and that its error decides the status. Other measurements write nothing then.
func TestBenchIncomplete(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		takes     takes
		interrupt bool
		blocked   bool // the folder of --out is a file
		status    int
		text      string // of the error
		written   bool
	}{
		{"error", takesPrograms, false, false, command.ExitError, "refused", true},
		{"interrupt", takesPrograms, true, false, command.ExitInterrupted, "", true},
		{"error without a folder", takesPrograms, false, true, command.ExitError, "refused\nmkdir", false},
		{"interrupt without a folder", takesPrograms, true, true, command.ExitInterrupted, "mkdir", false},
		{"another measurement", 0, false, false, command.ExitError, "refused", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f := benchFlags{out: t.TempDir()}
			name := filepath.Join(f.out, "compare.json")
			if err := os.WriteFile(name, []byte("older"), 0o644); err != nil {
				t.Fatal(err)
			}
			if c.blocked {
				f.out = name
			}
			var out bytes.Buffer
			err := f.measure(ctx, command.Streams{Out: &out, Err: t.Output()}, &benchmark{takes: c.takes, run: func(context.Context, scenario.Options) (*scenario.Report, error) {
				if c.interrupt {
					cancel()
				}
				return &scenario.Report{What: "compare", Incomplete: "1 of 3"}, errors.New("refused")
			}})
			status, text, _ := command.Outcome(ctx, err)
			if status != c.status || !strings.HasPrefix(text, c.text) {
				t.Errorf("status %d, %q; want %d, %q", status, text, c.status, c.text)
			}
			file, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if inText, inFile := strings.Contains(out.String(), "INCOMPLETE: 1 of 3"), strings.Contains(string(file), `"Incomplete": "1 of 3"`); inText != c.written || inFile != c.written {
				t.Errorf("the report is incomplete in the text: %t, in the file: %t; want %t", inText, inFile, c.written)
			}
		})
	}
}
