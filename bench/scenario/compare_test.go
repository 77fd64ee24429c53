package scenario_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/bench/pairs"
	"github.com/ruedahq/rueda/bench/scenario"
)

// TestCompareE2E compares this program with itself, with too few connections for meaningful ratios.
func TestCompareE2E(t *testing.T) {
	for only, figures := range map[string][]string{
		"latency 160 k/s": {"p50 ms", "p99 ms", "CPU s/M"},
		"fanout burst16":  {"deliveries/s", "CPU s/M"},
		"start on":        {"s to ready", "CPU s"},
		"resume":          {"rows/s", "CPU s/M"},
		"connect":         {"connections/s", "CPU us each"},
		"idle plain":      {"KiB a connection", "MiB of the empty server", "cores for heartbeats"},
	} {
		t.Run(only, func(t *testing.T) {
			o := tiny(t, 8)
			o.Only, o.Old, o.New, o.Window = only, o.Program, o.Program, 200*time.Millisecond
			o.Runs, o.MaxRuns = 6, 7
			if only == "idle plain" {
				o.Runs, o.MaxRuns, o.Conns = 1, 1, 20
			}
			r, err := scenario.Compare(t.Context(), o)
			good(t, r, err)
			compared(t, r, &o, figures)
		})
	}
}

// compared checks the comparisons of a report, as text and as JSON.
func compared(t *testing.T, r *scenario.Report, o *scenario.Options, figures []string) {
	t.Helper()
	var table strings.Builder
	var out bytes.Buffer
	var back scenario.Report
	if err := r.WriteText(&table); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Comparisons) != len(figures)*len(back.Cases) || len(back.Cases) == 0 {
		t.Fatalf("%d comparisons of %d workloads:\n%s", len(back.Comparisons), len(back.Cases), table.String())
	}
	for i, c := range back.Comparisons {
		if c.Workload != back.Cases[i/len(figures)].Name || c.Figure != figures[i%len(figures)] {
			t.Errorf("comparison %d is %s of %s", i, c.Figure, c.Workload)
		}
		if c.Pairs < o.Runs || c.Pairs > o.MaxRuns || c.Pairs != len(c.Ratios) || c.Old <= 0 || c.New <= 0 || c.Ratio <= 0 {
			t.Errorf("%+v", c)
		}
		if c.Pairs >= 6 && (c.Low <= 0 || c.Low > c.Ratio || c.High < c.Ratio) || c.Pairs < 6 && (c.High != 0 || c.Decision != pairs.Undecided) {
			t.Errorf("%+v", c)
		}
		line := ""
		for l := range strings.Lines(table.String()) {
			if strings.HasPrefix(l, c.Workload) && strings.Contains(l, "  "+c.Figure+"  ") {
				line = l
			}
		}
		if !strings.Contains(line, c.Decision) {
			t.Errorf("the line of %s of %s is %q:\n%s", c.Figure, c.Workload, line, table.String())
		}
	}
}

// TestCompareRefusesOtherVersionE2E has the newer program state another version of the protocol.
func TestCompareRefusesOtherVersionE2E(t *testing.T) {
	o := tiny(t, 8)
	o.Only, o.Old, o.New = "latency 160 k/s", o.Program, []string{os.Args[0], otherVersion}
	r, err := scenario.Compare(t.Context(), o)
	const want = "has version 7 of the protocol of measurements, this program has version 1"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatal(err)
	}
	if !strings.HasPrefix(r.Incomplete, "0 of 1 workload measured; latency 160 k/s") || !strings.Contains(r.Incomplete, want) || r.Took == 0 {
		t.Errorf("after %v seconds the report is incomplete: %q", r.Took, r.Incomplete)
	}
}
