package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"
)

// TestWriteBenchmarks checks that the reader of benchstat finds each run and figure of a report.
func TestWriteBenchmarks(t *testing.T) {
	r := &Report{What: "fanout", Cases: []*Case{
		{Name: "in step singles 1000",
			Ceiling: []*Run{{PerSecond: 450_000.5, CPU: 2.1, Cores: 1.9}, {Error: "lost"}},
			Rueda:   []*Run{{PerSecond: 410_000, CPU: 2.5, Cores: 2, Samples: 9, P50: 0.25, P99: 1.5, P999: 3}}},
		{Name: "auth", Figures: []Figure{{Name: "refreshes/s", Value: 4151}}},
	}}
	var text strings.Builder
	if err := r.WriteBenchmarks(&text); err != nil {
		t.Fatal(err)
	}
	var got []string
	for in := benchfmt.NewReader(strings.NewReader(text.String()), "report"); in.Scan(); {
		result, ok := in.Result().(*benchfmt.Result)
		if !ok {
			t.Fatalf("%v", in.Result())
		}
		line := string(result.Name)
		for _, v := range result.Values {
			line += fmt.Sprint(" ", v.Value, v.Unit)
		}
		got = append(got, line)
	}
	want := []string{
		"Fanout/case=in_step_singles_1000/side=ceiling 450000.5deliveries/s 2.1cpu-s/M 1.9cores",
		"Fanout/case=in_step_singles_1000/side=rueda 410000deliveries/s 2.5cpu-s/M 2cores 0.25p50-ms 1.5p99-ms 3p99.9-ms",
		"Fanout/case=auth/figure=refreshes_per_s 4151value",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
