package scenario

import (
	"fmt"
	"io"
	"strings"
)

// WriteBenchmarks writes the runs and figures of the report in the format of Go's benchmarks, a
// line for each run. The names end with the side, so that benchstat compares the sides in columns
// with -col /side.
func (r *Report) WriteBenchmarks(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "goos: linux\npkg: github.com/ruedahq/rueda/bench\ncpu: %s\n", r.Machine.CPU)
	name := func(c *Case, rest string) string {
		return "Benchmark" + strings.ToUpper(r.What[:1]) + r.What[1:] + "/case=" + word(c.Name) + rest
	}
	for _, c := range r.Cases {
		for _, side := range []struct {
			name string
			runs []*Run
		}{{"ceiling", c.Ceiling}, {"rueda", c.Rueda}, {"old", c.Old}, {"new", c.New}} {
			for _, run := range side.runs {
				if run == nil || run.Error != "" {
					continue
				}
				fmt.Fprintf(&b, "%s 1 %g deliveries/s %g cpu-s/M %g cores", name(c, "/side="+side.name), run.PerSecond, run.CPU, run.Cores)
				if run.Samples > 0 {
					fmt.Fprintf(&b, " %g p50-ms %g p99-ms %g p99.9-ms", run.P50, run.P99, run.P999)
				}
				b.WriteByte('\n')
			}
		}
		for _, f := range c.Figures {
			fmt.Fprintf(&b, "%s 1 %g value\n", name(c, "/figure="+word(f.Name)), f.Value)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// word returns a name as part of the name of a benchmark, without spaces and slashes.
func word(name string) string { return strings.NewReplacer(" ", "_", "/", "_per_").Replace(name) }
