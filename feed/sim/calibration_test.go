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
	dayFile  = "../../docs/simulator-day.svg"
)

func classNames() []string { return []string{"leading", "sovereign", "general", "cedear", "illiquid"} }

// measure computes the facts and the curves of a virtual day.
func measure(t *testing.T, config Config) (map[string]*facts.Row, allCurves) {
	t.Helper()
	c := facts.New()
	c.Class = Classes()
	config.Start = friday()
	var days allCurves
	runDays(t, config, both{c, &days})
	days.check(t, config.Instruments == 0)
	rows := map[string]*facts.Row{}
	table := c.Table()
	for i := range table.Classes {
		rows[table.Classes[i].Name] = &table.Classes[i]
	}
	return rows, days
}

// TestCalibrationE2E checks that every class is within its ranges: over five days of the whole
// market in full, one day of a quarter of it otherwise. In full it also compares the table in
// docs/simulator.md, which is the first day.
func TestCalibrationE2E(t *testing.T) {
	soak := os.Getenv("RUEDA_SOAK") == "1"
	configs := []Config{{Seed: 1, Days: 1, Instruments: 101}}
	if soak || *update {
		configs = []Config{{Seed: 1, Days: 1}}
	}
	for seed := uint64(2); soak && seed <= 5; seed++ {
		configs = append(configs, Config{Seed: seed, Days: 1})
	}
	rows, first := []map[string]*facts.Row{}, allCurves{}
	for i, config := range configs {
		r, curves := measure(t, config)
		rows = append(rows, r)
		if i == 0 {
			first = curves
		}
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
	if soak || *update {
		show(t, "facts", factsTable(rows[0]))
		showPlot(t, plotFile, drawFacts(rows[0]))
		showPlot(t, dayFile, drawDay(first))
	}
}

// showPlot compares a plot with the one in the manual, or updates it.
func showPlot(t *testing.T, file string, plot []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, plot, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if old, err := os.ReadFile(file); err != nil || string(old) != string(plot) {
		t.Errorf("%s is not what is drawn today (%v): go test ./feed/sim -run TestCalibrationE2E -update", filepath.Base(file), err)
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
