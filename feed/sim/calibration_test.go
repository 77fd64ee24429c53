package sim

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed/sim/facts"
)

var update = flag.Bool("update", false, "write tables and plot of docs/simulator.md")

const (
	manual   = "../../docs/simulator.md"
	plotFile = "../../docs/simulator.svg"
)

// fact is a stylised fact and where a table has it.
type fact struct {
	name string
	of   func(*facts.Row) facts.Figure
}

func factList() []fact {
	return []fact{
		{"adds to a trade", func(r *facts.Row) facts.Figure { return r.AddsPerTrade }},
		{"spread p10, ticks", func(r *facts.Row) facts.Figure { return r.SpreadTicks[0] }},
		{"spread p50, ticks", func(r *facts.Row) facts.Figure { return r.SpreadTicks[1] }},
		{"spread p90, ticks", func(r *facts.Row) facts.Figure { return r.SpreadTicks[2] }},
		{"spread p10, bp", func(r *facts.Row) facts.Figure { return r.SpreadBasis[0] }},
		{"spread p50, bp", func(r *facts.Row) facts.Figure { return r.SpreadBasis[1] }},
		{"spread p90, bp", func(r *facts.Row) facts.Figure { return r.SpreadBasis[2] }},
		{"volatility of a day", func(r *facts.Row) facts.Figure { return r.Volatility }},
		{"kurtosis of minutes", func(r *facts.Row) facts.Figure { return r.Kurtosis }},
		{"autocorrelation of minutes", func(r *facts.Row) facts.Figure { return r.Bounce }},
		{"sign ACF, lag 1", func(r *facts.Row) facts.Figure { return r.SignACF[0] }},
		{"sign ACF, lag 2", func(r *facts.Row) facts.Figure { return r.SignACF[1] }},
		{"sign ACF, lag 5", func(r *facts.Row) facts.Figure { return r.SignACF[2] }},
		{"sign ACF, lag 10", func(r *facts.Row) facts.Figure { return r.SignACF[3] }},
		{"sign ACF, lag 20", func(r *facts.Row) facts.Figure { return r.SignACF[4] }},
		{"Fano factor", func(r *facts.Row) facts.Figure { return r.Fano }},
		{"trades a day", func(r *facts.Row) facts.Figure { return r.TradesPerDay }},
	}
}

// bounds are the ranges that a class keeps to, in the order of factList: of any part of a
// day from an hour on.
func bounds() map[string][][2]float64 {
	return map[string][][2]float64{
		"leading": {
			{3, 15}, {1, 2}, {2, 5}, {3, 12}, {.5, 3}, {1.5, 8}, {4, 15}, {.02, .05}, {5, 60}, {-.15, .25},
			{.5, .8}, {.35, .65}, {.22, .5}, {.12, .35}, {.05, .25}, {3, 12}, {5_000, 40_000},
		},
		"sovereign": {
			{3, 15}, {1, 2}, {1, 4}, {2, 8}, {.5, 2}, {1, 4}, {2, 8}, {.008, .02}, {4, 60}, {-.15, .25},
			{.5, .8}, {.35, .65}, {.22, .5}, {.12, .35}, {.05, .25}, {3, 15}, {5_000, 40_000},
		},
		"general": {
			{5, 30}, {1, 3}, {2, 12}, {6, 40}, {1, 8}, {6, 20}, {18, 50}, {.015, .04}, {5, 60}, {-.15, .3},
			{.45, .75}, {.3, .6}, {.15, .45}, {.05, .35}, {0, .25}, {3, 15}, {300, 4_000},
		},
		"cedear": {
			{8, 40}, {1, 3}, {2, 8}, {6, 25}, {.7, 4}, {2.5, 10}, {8, 25}, {.013, .035}, {5, 60}, {-.15, .3},
			{.4, .7}, {.25, .55}, {.12, .4}, {.04, .3}, {0, .25}, {3, 15}, {500, 4_000},
		},
		"illiquid": {
			{8, 40}, {1, 8}, {6, 30}, {25, 90}, {2, 15}, {14, 45}, {40, 90}, {.012, .035}, {8, 80}, {-.15, .3},
			{.4, .75}, {.25, .6}, {.1, .45}, {0, .35}, {-.1, .3}, {2.5, 12}, {50, 800},
		},
	}
}

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

// TestCalibration holds every class to its ranges: five days of the whole market in full, less than a
// twentieth of that otherwise. In full it also compares what docs/simulator.md shows, which is the first day.
func TestCalibration(t *testing.T) {
	short := Config{Seed: 1, Days: 1, Instruments: 133, Duration: 125 * time.Minute}
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
			t.Logf("figure: day %d, %s: %s", i, name, strings.Join(row.Cells(), ", "))
			for k, f := range factList() {
				b := bounds()[name][k]
				if v := float64(f.of(row)); !(v >= b[0] && v <= b[1]) {
					t.Errorf("day %d: %s: %s is %.3g, want %v to %v", i, name, f.name, v, b[0], b[1])
				}
			}
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
			t.Errorf("%s is not what is drawn today (%v): go test ./feed/sim -run TestCalibration -update", filepath.Base(plotFile), err)
		}
	}
}

// show wants a table in the manual, or puts it there.
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
		t.Errorf("%s shows other %s: go test ./feed/sim -run TestCalibration -update", filepath.Base(manual), name)
		return
	}
	if err := os.WriteFile(manual, want, 0o644); err != nil {
		t.Fatal(err)
	}
}

func rangesTable() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| fact | %s | real share |\n|---|%s\n", strings.Join(classNames(), " | "), strings.Repeat("---|", len(classNames())+1))
	real := facts.Measured()
	for k, f := range factList() {
		fmt.Fprintf(&b, "| %s ", f.name)
		for _, name := range classNames() {
			r := bounds()[name][k]
			fmt.Fprintf(&b, "| %v to %v ", r[0], r[1])
		}
		fmt.Fprintf(&b, "| %s |\n", figure(f.of(&real)))
	}
	return b.String()
}

func factsTable(rows map[string]*facts.Row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| fact | %s | real share |\n|---|%s\n", strings.Join(classNames(), " | "), strings.Repeat("---|", len(classNames())+1))
	real := facts.Measured()
	for _, f := range factList() {
		fmt.Fprintf(&b, "| %s ", f.name)
		for _, name := range classNames() {
			fmt.Fprintf(&b, "| %s ", figure(f.of(rows[name])))
		}
		fmt.Fprintf(&b, "| %s |\n", figure(f.of(&real)))
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
