package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// report has the figures of all runs.
type report struct {
	plan   *plan
	cells  []*cell
	failed []string
}

// cell has the figures of a server for one workload.
type cell struct {
	server, version string
	size, batch     int
	runs            []*figures
	median          figures
}

func newReport(p *plan) *report { return &report{plan: p} }

// addRound adds the runs of a round, in the order of all; failed runs are nil.
func (r *report) addRound(all []contestant, size, batch int, runs []*figures) {
	base := 0.0
	for i, f := range runs {
		if f != nil && all[i].name == ceiling {
			base = f.PerSecond
		}
	}
	for i, f := range runs {
		if f == nil {
			continue
		}
		if base > 0 {
			f.OfCeil = f.PerSecond / base
		}
		r.add(&all[i], size, batch, f)
	}
}

func (r *report) fail(c *contestant, size, batch int, err error) {
	r.failed = append(r.failed, fmt.Sprintf("%s, %d subscribers, batches of %d, a run failed: %v", c.name, size, batch, err))
}

func (r *report) add(c *contestant, size, batch int, f *figures) {
	i := slices.IndexFunc(r.cells, func(x *cell) bool {
		return x.server == c.name && x.size == size && x.batch == batch
	})
	if i < 0 {
		i = len(r.cells)
		r.cells = append(r.cells, &cell{server: c.name, version: c.version, size: size, batch: batch})
	}
	x := r.cells[i]
	x.runs = append(x.runs, f)
	x.median = medians(x.runs)
}

// medians returns the median of each figure. Loss and error are the worst.
func medians(runs []*figures) figures {
	var m figures
	for _, get := range []func(*figures) *float64{
		func(f *figures) *float64 { return &f.Seconds },
		func(f *figures) *float64 { return &f.PerSecond },
		func(f *figures) *float64 { return &f.CPU },
		func(f *figures) *float64 { return &f.Cores },
		func(f *figures) *float64 { return &f.LoadCPU },
		func(f *figures) *float64 { return &f.PerRead },
		func(f *figures) *float64 { return &f.Bytes },
		func(f *figures) *float64 { return &f.P50 },
		func(f *figures) *float64 { return &f.P99 },
		func(f *figures) *float64 { return &f.P999 },
		func(f *figures) *float64 { return &f.Max },
		func(f *figures) *float64 { return &f.Foreign },
		func(f *figures) *float64 { return &f.OfCeil },
	} {
		all := make([]float64, len(runs))
		for i, f := range runs {
			all[i] = *get(f)
		}
		*get(&m) = middle(all)
	}
	whole := make([]float64, len(runs))
	for i, f := range runs {
		whole[i] = float64(f.Resident)
		m.Deliveries += f.Deliveries
		m.Samples += f.Samples
		if f.Error != "" && (m.Error == "" || f.Lost > m.Lost) {
			m.Lost, m.Error = f.Lost, f.Error
		}
	}
	m.Resident = int64(middle(whole))
	return m
}

func middle(all []float64) float64 {
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// print writes a table for each workload.
func (r *report) print(out io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s/%s, %d cores; %s\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), r.settings())
	size, batch := 0, 0
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, c := range r.cells {
		if c.size != size || c.batch != batch {
			size, batch = c.size, c.batch
			_ = w.Flush() // into memory
			fmt.Fprintf(&text, "\n%d subscribers, messages published %s\n", size, r.manner(batch))
			fmt.Fprint(w, "server\tdeliveries/s\tof ceiling\tCPU s/M\tcores\tmsgs/read\tbytes\tp50 ms\tp99 ms\tMiB\tforeign\tmissing\t\n")
		}
		m := &c.median
		ratio := ""
		if m.OfCeil > 0 {
			ratio = fmt.Sprintf("%.2f", m.OfCeil)
		}
		missing := ""
		if m.Error != "" {
			missing = fmt.Sprintf("%.3f %%", m.Lost*100)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.3f\t%.2f\t%.1f\t%.0f\t%.2f\t%.2f\t%d\t%.2f\t%s\t\n", c.server, rate(m.PerSecond), ratio,
			m.CPU, m.Cores, m.PerRead, m.Bytes, m.P50, m.P99, m.Resident>>20, m.Foreign, missing)
	}
	_ = w.Flush()
	text.WriteByte('\n')
	for _, n := range r.notes() {
		fmt.Fprintln(&text, n)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func rate(v float64) string {
	if v >= 1e6 {
		return fmt.Sprintf("%.2f M", v/1e6)
	}
	return fmt.Sprintf("%.0f k", v/1e3)
}

func (r *report) settings() string {
	return fmt.Sprintf("%d runs of %v after %v", r.plan.rounds, r.plan.window, r.plan.warm)
}

func (r *report) manner(batch int) string {
	way := "one by one"
	if batch > 1 {
		way = fmt.Sprintf("in batches of %d", batch)
	}
	if r.plan.rate > 0 {
		return fmt.Sprintf("%s, %g a second", way, r.plan.rate)
	}
	return way + ", as fast as they go"
}

// notes returns the lines below the tables: the version of each server, runs in which messages were
// missing, and what could not run.
func (r *report) notes() []string {
	var notes []string
	told := map[string]bool{}
	for _, c := range r.cells {
		if !told[c.server] {
			told[c.server] = true
			notes = append(notes, c.server+": "+c.version)
		}
	}
	for _, c := range r.cells {
		if c.median.Error != "" {
			notes = append(notes, fmt.Sprintf("%s, %d subscribers, batches of %d, messages were missing: %s", c.server, c.size, c.batch, c.median.Error))
		}
	}
	return append(notes, r.failed...)
}
