package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is what a measurement found.
type Report struct {
	What     string
	Began    time.Time
	Took     float64 // seconds
	Machine  Machine
	Settings string
	Limits   string // that the gateway's configuration raises
	Cases    []*Case
	Notes    []string `json:",omitempty"`
	Checks   []Check
}

// Machine is where it was measured.
type Machine struct {
	Cores  int
	CPU    string
	Kernel string
	Go     string
	Memory int64
}

// Case is one workload: the runs of the ceiling and of Rueda, pair by pair.
type Case struct {
	Name    string
	Conns   int
	Ceiling []*Run          `json:",omitempty"`
	Rueda   []*Run          `json:",omitempty"`
	Figures []Figure        `json:",omitempty"` // what is not a Run
	Others  map[string]*Run `json:",omitempty"`
}

// Figure is a number with a name.
type Figure struct {
	Name  string
	Value float64
	Text  string
}

// Check is one bound and what was measured against it.
type Check struct {
	Name   string
	Value  float64
	Bound  float64
	AtMost bool // the bound is an upper one
	Pass   bool
	Text   string // value and bound for people
}

func newReport(what string, o *Options) *Report {
	return &Report{What: what, Began: time.Now(), Machine: thisMachine(),
		Settings: fmt.Sprintf("%d runs of %v after %v", o.Runs, o.Window, o.Warmup)}
}

func thisMachine() Machine {
	m := Machine{Cores: runtime.NumCPU(), Go: runtime.Version()}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(b))
	}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				m.CPU = strings.Trim(name, "\t :\n")
				break
			}
		}
	}
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib int64
		if _, err := fmt.Sscanf(string(b), "MemTotal: %d kB", &kib); err == nil {
			m.Memory = kib << 10
		}
	}
	return m
}

// atLeast and atMost hold a value to a bound. format is of both.
func (r *Report) atLeast(name string, value, bound float64, format string) {
	r.check(name, value, bound, false, format)
}

func (r *Report) atMost(name string, value, bound float64, format string) {
	r.check(name, value, bound, true, format)
}

func (r *Report) check(name string, value, bound float64, most bool, format string) {
	c := Check{Name: name, Value: value, Bound: bound, AtMost: most, Pass: value >= bound && value > 0}
	word := "at least"
	if most {
		c.Pass, word = value <= bound && value > 0, "at most"
	}
	c.Text = fmt.Sprintf(format+", "+word+" "+format, value, bound)
	r.Checks = append(r.Checks, c)
}

// holds is a check of a thing that is so or not.
func (r *Report) holds(name string, pass bool, text string) {
	r.Checks = append(r.Checks, Check{Name: name, Pass: pass, Text: text})
}

// Failed says whether a run went wrong or a bound was not kept.
func (r *Report) Failed() bool { return r.Wrong() || r.Missed() }

// Wrong says whether a run went wrong: its figures mean nothing.
func (r *Report) Wrong() bool {
	for _, c := range r.Cases {
		for _, runs := range [2][]*Run{c.Ceiling, c.Rueda} {
			for _, run := range runs {
				if run != nil && run.Error != "" {
					return true
				}
			}
		}
	}
	return false
}

// Missed says whether a bound was not kept.
func (r *Report) Missed() bool {
	for _, c := range r.Checks {
		if !c.Pass {
			return true
		}
	}
	return false
}

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d cores (%s), Linux %s, %s; %s\n", r.What, r.Machine.Cores, r.Machine.CPU, r.Machine.Kernel, r.Machine.Go, r.Settings)
	if r.Limits != "" {
		fmt.Fprintf(&b, "the gateway's settings: %s\n", r.Limits)
	}
	if r.hasRuns() {
		b.WriteByte('\n')
		r.writeRuns(&b)
	}
	for _, c := range r.Cases {
		for _, f := range c.Figures {
			fmt.Fprintf(&b, "%-28s %-46s %s\n", c.Name, f.Name, f.Text)
		}
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	b.WriteByte('\n')
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, c := range r.Checks {
		verdict := "PASS"
		if !c.Pass {
			verdict = "FAIL"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", verdict, c.Name, c.Text)
	}
	_ = t.Flush() // into memory
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) hasRuns() bool {
	for _, c := range r.Cases {
		if len(c.servers()) > 0 {
			return true
		}
	}
	return false
}

func (r *Report) writeRuns(b *strings.Builder) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "case\tserver\tdeliveries/s\tof ceiling\tCPU s/M\tcores\tload s/M\tp50 ms\tp99\tp99.9\tmsgs/read\t/write\tallocs\tbytes\tRSS\tforeign\tbad\t")
	for _, c := range r.Cases {
		for _, s := range c.servers() {
			ratio := ""
			if s.name == "rueda" && len(c.Ceiling) > 0 {
				ratio = fmt.Sprintf("%.2f", ratios(c.Rueda, c.Ceiling, perSecond))
			}
			m := func(f func(*Run) float64) float64 { return median(s.runs, f) }
			rss, write, allocs := "", "", ""
			if v := m(func(r *Run) float64 { return r.PerWrite }); v > 0 {
				write, allocs = fmt.Sprintf("%.1f", v), fmt.Sprintf("%.4f", m(func(r *Run) float64 { return r.Allocs }))
			}
			if v := m(func(r *Run) float64 { return float64(r.Resident) }); v > 0 {
				rss = size(v)
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.3f\t%.2f\t%.3f\t%.2f\t%.2f\t%.2f\t%.1f\t%s\t%s\t%.0f\t%s\t%.2f\t%d\t\n",
				c.Name, s.name, rate(m(perSecond)), ratio, m(cpu), m(func(r *Run) float64 { return r.Cores }),
				m(func(r *Run) float64 { return r.LoadCPU }), m(p50), m(p99), m(func(r *Run) float64 { return r.P999 }),
				m(func(r *Run) float64 { return r.PerRead }), write, allocs, m(func(r *Run) float64 { return r.Bytes }), rss,
				m(func(r *Run) float64 { return r.Foreign }), bad(s.runs))
		}
	}
	_ = t.Flush() // into memory
	for _, c := range r.Cases {
		for _, runs := range [2][]*Run{c.Ceiling, c.Rueda} {
			for _, run := range runs {
				if run != nil && run.Error != "" {
					fmt.Fprintf(b, "bad run of %s: %s\n", c.Name, run.Error)
				}
			}
		}
	}
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
