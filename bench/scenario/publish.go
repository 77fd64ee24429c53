package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The document with figures, and the folder of its plots.
const (
	document = "performance.md"
	plots    = "performance"
)

// ErrNoReport means that a folder has no reports.
var ErrNoReport = errors.New("no report")

// Publish reads the reports (NAME.json) of a folder, writes their plots to docs/performance, and
// their tables into docs/performance.md between these marks:
//
//	<!-- figures fanout -->
//	<!-- /figures -->
//
// It returns the names of the files it wrote.
func Publish(from, docs string) (written []string, err error) {
	names, err := filepath.Glob(filepath.Join(from, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%w in %s", ErrNoReport, from)
	}
	if err := os.MkdirAll(filepath.Join(docs, plots), 0o755); err != nil {
		return nil, err
	}
	figures := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return written, err
		}
		var r Report
		if err := json.Unmarshal(text, &r); err != nil {
			return written, fmt.Errorf("read %s: %w", name, err)
		}
		var b strings.Builder
		for _, c := range r.charts() {
			file := filepath.Join(docs, plots, c.file)
			if err := writeChart(file, &c.Chart); err != nil {
				return written, err
			}
			written = append(written, file)
			fmt.Fprintf(&b, "![%s](%s/%s)\n\n", c.Title, plots, c.file)
		}
		r.writeMarkdown(&b)
		figures[r.What] = b.String()
	}
	file := filepath.Join(docs, document)
	if err := insert(file, figures); err != nil {
		return written, err
	}
	return append(written, file), nil
}

func writeChart(name string, c *Chart) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(c.WriteSVG(f), f.Close())
}

// insert replaces the figures between their marks.
func insert(name string, figures map[string]string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	place := regexp.MustCompile(`(?s)(<!-- figures ([a-z]+) -->\n).*?(<!-- /figures -->)`)
	out := place.ReplaceAllStringFunc(string(text), func(old string) string {
		m := place.FindStringSubmatch(old)
		table, ok := figures[m[2]]
		if !ok {
			return old
		}
		return m[1] + "\n" + table + "\n" + m[3]
	})
	return os.WriteFile(name, []byte(out), 0o644)
}

// plot is a chart with its file name.
type plot struct {
	Chart
	file string
}

// charts returns the charts of a report.
func (r *Report) charts() []plot {
	type series struct {
		file, title, unit string
		value             func(*Run) float64
		text              func(float64) string
	}
	number := func(format string) func(float64) string {
		return func(v float64) string { return fmt.Sprintf(format, v) }
	}
	speed := series{"rate", "Deliveries a second", "more is better", perSecond, rate}
	cost := series{"cpu", "Server's processor seconds for a million deliveries", "less is better", cpu, number("%.3f")}
	var all []series
	switch r.What {
	case "fanout", "rivals":
		all = []series{speed, cost}
	case "latency":
		all = []series{
			{"p50", "Latency, p50", "ms, less is better", p50, number("%.2f")},
			{"p99", "Latency, p99", "ms, less is better", p99, number("%.2f")},
		}
	case "connect":
		all = []series{{"rate", "Connect, authenticate, subscribe, first quote", "clients a second, more is better", perSecond, rate}}
	}
	var list []plot
	for _, s := range all {
		p := plot{Chart{Title: s.title, Unit: s.unit}, r.What + "-" + s.file + ".svg"}
		for _, c := range r.Cases {
			g := Group{Name: c.Name}
			for _, x := range c.servers() {
				if v := median(x.runs, s.value); v > 0 {
					g.Bars = append(g.Bars, Bar{Name: x.name, Value: v, Text: s.text(v)})
				}
			}
			if len(g.Bars) > 0 {
				p.Groups = append(p.Groups, g)
			}
		}
		if len(p.Groups) > 0 {
			list = append(list, p)
		}
	}
	return list
}

// served is a server's runs of a case.
type served struct {
	name string
	runs []*Run
}

// servers returns all servers of a case: the ceiling, Rueda, others by name.
func (c *Case) servers() []served {
	list := []served{{"ceiling", c.Ceiling}, {"rueda", c.Rueda}}
	for _, name := range slices.Sorted(maps.Keys(c.Others)) {
		list = append(list, served{name, []*Run{c.Others[name]}})
	}
	return slices.DeleteFunc(list, func(s served) bool { return len(s.runs) == 0 })
}

// writeMarkdown writes the report as tables.
func (r *Report) writeMarkdown(b *strings.Builder) {
	fmt.Fprintf(b, "%s; %d cores (%s), Linux %s, %s; %s.\n\n", r.Began.UTC().Format("2006-01-02"), r.Machine.Cores, r.Machine.CPU, r.Machine.Kernel, r.Machine.Go, r.Settings)
	if r.Limits != "" {
		fmt.Fprintf(b, "Raised by configuration: `%s`.\n\n", r.Limits)
	}
	if r.hasRuns() {
		b.WriteString("| workload | server | per second | of the ceiling | CPU s/M | p50 ms | p99 | p99.9 | foreign cores |\n|---|---|--:|--:|--:|--:|--:|--:|--:|\n")
	}
	for _, c := range r.Cases {
		for _, s := range c.servers() {
			m := func(format string, f func(*Run) float64) string { return numeral(format, median(s.runs, f)) }
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s | %.2f |\n", c.Name, s.name, rate(median(s.runs, perSecond)), c.ofCeiling(&s),
				m("%.3f", cpu), m("%.2f", p50), m("%.2f", p99), m("%.2f", p999), median(s.runs, foreign))
		}
	}
	r.writeAttackTable(b)
	figures := false
	for _, c := range r.Cases {
		for _, f := range c.Figures {
			if !figures {
				b.WriteString("\n| workload | figure | |\n|---|---|--:|\n")
				figures = true
			}
			fmt.Fprintf(b, "| %s | %s | %s |\n", c.Name, f.Name, f.Text)
		}
	}
	checks := r.Checks
	if len(r.attackLines()) > 0 {
		checks = nil // the table has the ratios
	}
	if len(checks) > 0 {
		if r.Reduced != "" {
			fmt.Fprintf(b, "\nBounds are for the default sizes; here: %s.\n", r.Reduced)
		}
		b.WriteString("\n| bound | measured | |\n|---|---|---|\n")
	}
	for _, c := range checks {
		result := "kept"
		switch {
		case c.missed():
			result = "**missed**"
		case !c.Pass: // not measured, or not judged
			result = ""
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", c.Name, c.Text, result)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(b, "\n%s\n", n)
	}
}

// writeAttackTable writes the table of the attacks and the bounds that they miss.
func (r *Report) writeAttackTable(b *strings.Builder) {
	lines := r.attackLines()
	for i, line := range lines {
		fmt.Fprintf(b, "| %s |\n", strings.Join(line, " | "))
		if i == 0 {
			b.WriteString("|---" + strings.Repeat("|--:", len(line)-1) + "|\n")
		}
	}
	if lines == nil {
		return
	}
	fmt.Fprintf(b, "\nBounds: ratios of at most %d, and %d %% of one core beyond the control.", hostileRatio, hostileCore)
	missed := 0
	for _, c := range r.Checks {
		if c.Pass || c.Unmeasured {
			continue
		}
		if missed++; missed == 1 {
			b.WriteString(" Missed:\n\n")
		}
		fmt.Fprintf(b, "- %s: %s\n", c.Name, c.Text)
	}
	if missed == 0 {
		b.WriteString(" All are kept.\n")
	}
}

func (r *Report) hasRuns() bool {
	return slices.ContainsFunc(r.Cases, func(c *Case) bool { return len(c.servers()) > 0 })
}
