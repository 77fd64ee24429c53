package scenario

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/bench/pairs"
)

// Report is the result of a measurement.
type Report struct {
	What     string
	Began    time.Time
	Took     float64 // seconds
	Machine  Machine
	Settings string
	Reduced  string `json:",omitempty"` // deviations from the defaults
	Limits   string // raised by the gateway's configuration
	Cases    []*Case
	Notes    []string `json:",omitempty"`
	Checks   []Check

	Comparisons []*pairs.Comparison `json:",omitempty"`
	Incomplete  string              `json:",omitempty"` // what "compare" measured before it ended early, and why

	foreign []float64 // foreign load outside of Runs
}

// Machine is the machine of a measurement.
type Machine struct {
	Cores  int
	CPU    string
	Kernel string
	Go     string
	Memory int64
}

// Case is a workload: the runs of the ceiling and of Rueda in pairs.
type Case struct {
	Name    string
	Conns   int
	Unit    string   `json:",omitempty"` // that its runs count; "": deliveries
	Ceiling []*Run   `json:",omitempty"`
	Rueda   []*Run   `json:",omitempty"`
	Old     []*Run   `json:",omitempty"` // of two programs that are compared
	New     []*Run   `json:",omitempty"`
	Figures []Figure `json:",omitempty"` // results that are not Runs

	Attacked *Attacked `json:",omitempty"` // Old are windows of the control, New those of the attack
}

// served is a server's runs of a case.
type served struct {
	name string
	runs []*Run
}

// servers returns the servers of a case that have runs: the ceiling, and Rueda.
func (c *Case) servers() []served {
	list := []served{{"ceiling", c.Ceiling}, {"rueda", c.Rueda}}
	return slices.DeleteFunc(list, func(s served) bool { return len(s.runs) == 0 })
}

// runs returns all runs of a case.
func (c *Case) runs() []*Run { return slices.Concat(c.Ceiling, c.Rueda, c.Old, c.New) }

// Figure is a named number.
type Figure struct {
	Name  string
	Value float64
	Text  string
}

// Check is a bound and the value compared with it.
type Check struct {
	Name   string
	Value  float64
	Bound  float64
	AtMost bool // an upper bound
	Pass   bool
	Text   string // value and bound as text

	Unmeasured bool `json:",omitempty"` // no sample: neither kept nor missed
	Informal   bool `json:",omitempty"` // the bound is for other sizes: reported, not judged
}

func newReport(what string, o *Options) *Report {
	return &Report{What: what, Began: time.Now(), Machine: ThisMachine(),
		Settings: fmt.Sprintf("%s of %v after %v", plural(o.Runs, "run"), o.Window, o.Warmup)}
}

// ThisMachine describes the machine of this program.
func ThisMachine() Machine {
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

// noisy is the foreign load, in cores, above which a machine is not idle.
const noisy = 0.1

// sawForeign records foreign load outside of Runs.
func (r *Report) sawForeign(cores ...float64) { r.foreign = append(r.foreign, cores...) }

// end completes the report.
func (r *Report) end() {
	r.Took = time.Since(r.Began).Seconds()
	all := r.foreign
	for _, c := range r.Cases {
		for _, run := range c.runs() {
			if run != nil {
				all = append(all, run.Foreign)
			}
		}
	}
	n := 0
	for _, v := range all {
		if v > noisy {
			n++
		}
	}
	if n > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("the machine was not quiet: in %d of %s others used more than %.1f cores, up to %.2f; "+
			"rates are too low and times too long", n, plural(len(all), "window"), noisy, slices.Max(all)))
	}
}

// atLeast and atMost compare a value with a bound. format formats both.
func (r *Report) atLeast(name string, value, bound float64, format string) {
	r.check(name, value, bound, false, format)
}

func (r *Report) atMost(name string, value, bound float64, format string) {
	r.check(name, value, bound, true, format)
}

func (r *Report) check(name string, value, bound float64, most bool, format string) {
	if value == 0 { // the median of no values
		r.unmeasured(name, "no sample")
		return
	}
	c := Check{Name: name, Value: value, Bound: bound, AtMost: most, Pass: value >= bound}
	word := "at least"
	if most {
		c.Pass, word = value <= bound, "at most"
	}
	if r.Reduced != "" {
		c.Pass, c.Informal = false, true
	}
	c.Text = fmt.Sprintf(format+", "+word+" "+format, value, bound)
	r.Checks = append(r.Checks, c)
}

// unmeasured returns a check without a sample.
func (r *Report) unmeasured(name, why string) {
	r.Checks = append(r.Checks, Check{Name: name, Unmeasured: true, Informal: r.Reduced != "", Text: "not measured: " + why})
}

// holds returns a check of a condition, for all sizes.
func (r *Report) holds(name string, pass bool, text string) {
	r.Checks = append(r.Checks, Check{Name: name, Pass: pass, Text: text})
}

// Failed reports whether a run was wrong or a bound was missed.
func (r *Report) Failed() bool { return r.Wrong() || r.Missed() }

// Wrong reports whether a run was wrong, so that its figures are invalid.
func (r *Report) Wrong() bool {
	for _, c := range r.Cases {
		if bad(c.runs()) > 0 {
			return true
		}
	}
	return false
}

// missed reports whether a judged check failed.
func (c *Check) missed() bool { return !c.Pass && !c.Unmeasured && !c.Informal }

// Missed reports whether a bound was missed, or a figure of the newer of two programs is slower.
func (r *Report) Missed() bool {
	for _, c := range r.Checks {
		if c.missed() {
			return true
		}
	}
	return slices.ContainsFunc(r.Comparisons, func(c *pairs.Comparison) bool { return c.Decision == pairs.Slower })
}

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
