package scenario

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/ruedahq/rueda/bench/pairs"
)

// WriteText writes the report as text.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d cores (%s), Linux %s, %s; %s\n", r.What, r.Machine.Cores, r.Machine.CPU, r.Machine.Kernel, r.Machine.Go, r.Settings)
	if r.Limits != "" {
		fmt.Fprintf(&b, "the gateway's settings: %s\n", r.Limits)
	}
	if r.Reduced != "" {
		fmt.Fprintf(&b, "not the defaults: %s\n", r.Reduced)
	}
	if r.Incomplete != "" {
		fmt.Fprintf(&b, "INCOMPLETE: %s\n", r.Incomplete)
	}
	r.writeRuns(&b)
	r.writeAttacks(&b)
	if len(r.Comparisons) > 0 {
		b.WriteString("\nratios above 1: the newer program is worse\n")
		_ = pairs.WriteTable(&b, r.Comparisons) // in memory: cannot fail
	}
	for _, c := range r.Cases {
		for _, f := range c.Figures {
			fmt.Fprintf(&b, "%-28s %-46s %s\n", c.Name, f.Name, f.Text)
		}
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	r.writeChecks(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeChecks writes the judged checks, and then the others.
func (r *Report) writeChecks(b *strings.Builder) {
	var judged, reported []Check
	for _, c := range r.Checks {
		if c.Informal {
			reported = append(reported, c)
		} else {
			judged = append(judged, c)
		}
	}
	if len(judged) > 0 {
		b.WriteByte('\n')
		t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
		for _, c := range judged {
			result := "FAIL"
			switch {
			case c.Unmeasured:
				result = "-"
			case c.Pass:
				result = "PASS"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\n", result, c.Name, c.Text)
		}
		_ = t.Flush() // in memory: cannot fail
	}
	if len(reported) > 0 {
		b.WriteString("\nbounds are for the default sizes, so there is no verdict on these:\n")
		t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
		for _, c := range reported {
			fmt.Fprintf(t, "  %s\t%s\n", c.Name, c.Text)
		}
		_ = t.Flush() // in memory: cannot fail
	}
}

// column is a column of the table of runs. It is omitted if it is empty in all lines.
type column struct {
	head string
	text func(*Case, *served) string
}

// writeRuns writes a table of the runs for each unit that they count.
func (r *Report) writeRuns(b *strings.Builder) {
	var group []*Case
	for i, c := range r.Cases {
		group = append(group, c)
		if i+1 == len(r.Cases) || r.Cases[i+1].Unit != c.Unit {
			writeTable(b, group)
			group = nil
		}
	}
	for _, c := range r.Cases {
		for _, run := range c.runs() {
			if run != nil && run.Error != "" {
				fmt.Fprintf(b, "bad run of %s: %s\n", c.Name, run.Error)
			}
		}
	}
}

func writeTable(b *strings.Builder, cases []*Case) {
	columns := runColumns(cases[0].Unit)
	var lines [][]string
	used := make([]bool, len(columns))
	for _, c := range cases {
		for _, s := range c.servers() {
			line := make([]string, len(columns))
			for i, col := range columns {
				line[i] = col.text(c, &s)
				used[i] = used[i] || line[i] != ""
			}
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return
	}
	b.WriteByte('\n')
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	write := func(text func(int) string) {
		for i := range columns {
			if used[i] {
				fmt.Fprintf(t, "%s\t", text(i))
			}
		}
		fmt.Fprintln(t)
	}
	write(func(i int) string { return columns[i].head })
	for _, line := range lines {
		write(func(i int) string { return line[i] })
	}
	_ = t.Flush() // in memory: cannot fail
}

// writeAttacks writes a table of the attacks, if there are any.
func (r *Report) writeAttacks(b *strings.Builder) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for i, line := range r.attackLines() {
		if i == 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintln(t, strings.Join(line, "\t"))
	}
	_ = t.Flush() // in memory: cannot fail
}

// runColumns returns the columns of runs that count a unit; "": deliveries.
func runColumns(unit string) []column {
	if unit == "" {
		unit = "deliveries"
	}
	number := func(head, format string, value func(*Run) float64) column {
		return column{head, func(_ *Case, s *served) string { return numeral(format, median(s.runs, value)) }}
	}
	return []column{
		{"case", func(c *Case, _ *served) string { return c.Name }},
		{"server", func(_ *Case, s *served) string { return s.name }},
		{unit + "/s", func(_ *Case, s *served) string { return rate(median(s.runs, perSecond)) }},
		{"of ceiling", func(c *Case, s *served) string { return c.ofCeiling(s) }},
		number("CPU s/M", "%.3f", cpu),
		number("cores", "%.2f", cores),
		number("load s/M", "%.3f", func(r *Run) float64 { return r.LoadCPU }),
		number("p50 ms", "%.2f", p50),
		number("p99", "%.2f", p99),
		number("p99.9", "%.2f", p999),
		number("msgs/read", "%.1f", func(r *Run) float64 { return r.PerRead }),
		number("/write", "%.1f", func(r *Run) float64 { return r.PerWrite }),
		number("allocs", "%.4f", func(r *Run) float64 { return r.Allocs }),
		number("bytes", "%.0f", func(r *Run) float64 { return r.Bytes }),
		{"RSS", func(_ *Case, s *served) string {
			if v := median(s.runs, func(r *Run) float64 { return float64(r.Resident) }); v > 0 {
				return size(v)
			}
			return ""
		}},
		{"foreign", func(_ *Case, s *served) string { return fmt.Sprintf("%.2f", median(s.runs, foreign)) }},
		{"bad", func(_ *Case, s *served) string { return fmt.Sprint(bad(s.runs)) }},
	}
}

// numeral formats a measured number; "" if it was not measured.
func numeral(format string, v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf(format, v)
}

// ofCeiling returns the ratio of Rueda to the ceiling.
func (c *Case) ofCeiling(s *served) string {
	if s.name != "rueda" {
		return ""
	}
	return numeral("%.2f", ratios(c.Rueda, c.Ceiling, perSecond))
}

func bad(runs []*Run) int {
	n := 0
	for _, r := range runs {
		if r != nil && r.Error != "" {
			n++
		}
	}
	return n
}
