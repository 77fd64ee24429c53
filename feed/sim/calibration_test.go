package sim

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/feed/sim/facts"
)

var update = flag.Bool("update", false, "write tables and plot of docs/simulator.md")

const (
	manual   = "../../docs/simulator.md"
	plotFile = "../../docs/simulator.svg"
)

func classNames() []string { return []string{"leading", "sovereign", "general", "cedear", "illiquid"} }

// measure computes the facts of virtual days.
func measure(t *testing.T, config Config) map[string]*facts.Row {
	t.Helper()
	c := facts.New()
	c.Class = Classes()
	config.Clock, config.Speed, config.Start = Virtual, -1, friday()
	if err := newSource(t, config).Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	rows := map[string]*facts.Row{}
	table := c.Table()
	for i := range table.Classes {
		rows[table.Classes[i].Name] = &table.Classes[i]
	}
	return rows
}

// TestCalibrationE2E checks that every class is within its ranges: over five days of the whole
// market in full, one day of a quarter of it otherwise. In full it also compares the table in
// docs/simulator.md, which is the first day.
func TestCalibrationE2E(t *testing.T) {
	short := Config{Seed: 1, Days: 1, Instruments: 101}
	rows := []map[string]*facts.Row{}
	if os.Getenv("RUEDA_SOAK") == "1" {
		for seed := range uint64(5) {
			rows = append(rows, measure(t, Config{Seed: seed + 1, Days: 1}))
		}
	} else if !*update {
		rows = append(rows, measure(t, short))
	} else {
		rows = append(rows, measure(t, Config{Seed: 1, Days: 1}))
	}
	for i, day := range rows {
		for _, name := range classNames() {
			row := day[name]
			if row == nil {
				t.Fatalf("day %d: no %s", i, name)
			}
			var figures []string
			for k, f := range facts.Ranged() {
				b, v := facts.Ranges(name)[k], float64(f.Of(row))
				figures = append(figures, fmt.Sprintf("%s %.3g", f.Name, v))
				if !(v >= b[0] && v <= b[1]) {
					t.Errorf("day %d: %s: %s is %.3g, want %v to %v", i, name, f.Name, v, b[0], b[1])
				}
			}
			t.Logf("figure: day %d, %s: %s", i, name, strings.Join(figures, ", "))
		}
	}
	show(t, "ranges", rangesTable())
	if os.Getenv("RUEDA_SOAK") == "1" || *update {
		show(t, "facts", factsTable(rows[0]))
		plot := drawFacts(rows[0])
		if *update {
			if err := os.WriteFile(plotFile, plot, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if old, err := os.ReadFile(plotFile); err != nil || string(old) != string(plot) {
			t.Errorf("%s is not what is drawn today (%v): go test ./feed/sim -run TestCalibrationE2E -update", filepath.Base(plotFile), err)
		}
	}
}

// show compares a table with the one in the manual, or updates it.
func show(t *testing.T, name, table string) {
	t.Helper()
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile(`(?s)(<!-- ` + name + ` -->\n).*?(<!-- /` + name + ` -->)`)
	if !block.Match(text) {
		t.Fatalf("%s has no place for %s", manual, name)
	}
	want := block.ReplaceAll(text, []byte("${1}\n"+table+"\n${2}"))
	if string(want) == string(text) {
		return
	}
	if !*update {
		t.Errorf("%s shows other %s: go test ./feed/sim -run TestCalibrationE2E -update", filepath.Base(manual), name)
		return
	}
	if err := os.WriteFile(manual, want, 0o644); err != nil {
		t.Fatal(err)
	}
}

func rangesTable() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| fact | %s | AAPL, cited |\n|---|%s\n", strings.Join(classNames(), " | "), strings.Repeat("---|", len(classNames())+1))
	real := facts.Measured()
	for k, f := range facts.Ranged() {
		fmt.Fprintf(&b, "| %s ", f.Name)
		for _, name := range classNames() {
			r := facts.Ranges(name)[k]
			fmt.Fprintf(&b, "| %v to %v ", r[0], r[1])
		}
		fmt.Fprintf(&b, "| %s |\n", figure(f.Of(&real)))
	}
	return b.String()
}

func factsTable(rows map[string]*facts.Row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| fact | %s | AAPL, cited |\n|---|%s\n", strings.Join(classNames(), " | "), strings.Repeat("---|", len(classNames())+1))
	real := facts.Measured()
	for _, f := range facts.Ranged() {
		fmt.Fprintf(&b, "| %s ", f.Name)
		for _, name := range classNames() {
			fmt.Fprintf(&b, "| %s ", figure(f.Of(rows[name])))
		}
		fmt.Fprintf(&b, "| %s |\n", figure(f.Of(&real)))
	}
	return b.String()
}

func figure(f facts.Figure) string {
	if !f.Known() {
		return ""
	}
	if f >= 1000 {
		return fmt.Sprintf("%.0f", float64(f))
	}
	return fmt.Sprintf("%.3g", float64(f))
}
