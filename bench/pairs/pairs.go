// Package pairs compares two programs by measurements in pairs, and decides whether the newer one
// is slower.
//
// The figure is the median of the ratios of the pairs, with the 95 % order-statistic interval of
// the pairs that were run. Pairs are independent, and nothing is assumed about their distribution.
// Because runs stop when the interval is narrow, its coverage over many comparisons is a little
// lower, about 94 %.
package pairs

import (
	"fmt"
	"io"
	"text/tabwriter"
)

const (
	notSlower = 1.05 // greatest upper end of the interval of a ratio that is not slower
	tooWide   = 0.06 // width of an interval above which more pairs are needed
)

// Decisions about a Comparison.
const (
	NotSlower = "not slower"
	Slower    = "slower"
	Undecided = "undecided"
)

// Figure is what a comparison compares.
type Figure struct {
	Name string
	Text func(float64) string // formats a value
	More bool                 // more is better
}

// Pair is a value of both programs. A value of 0 was not measured.
type Pair struct {
	Old, New float64
	Noisy    bool // other programs used the machine
}

// Comparison is a figure of two programs. Its ratios are above 1 if the newer one is worse.
type Comparison struct {
	Workload string
	Figure   string
	Old      float64 // median
	New      float64
	Ratio    float64 // median of the ratios of the pairs
	Low      float64 `json:",omitempty"` // the 95 % order-statistic interval of the pairs; 0: too few pairs
	High     float64 `json:",omitempty"`
	Pairs    int     // with both values
	Noisy    int     `json:",omitempty"` // pairs during which other programs used the machine
	Decision string
	Ratios   []float64 // in the order of the pairs

	text func(float64) string
}

// Compare compares a figure of a workload. Pairs without both values do not count.
func Compare(workload string, f Figure, list []Pair) *Comparison {
	c := &Comparison{Workload: workload, Figure: f.Name, text: f.Text}
	var before, after []float64
	for _, p := range list {
		if p.Old == 0 || p.New == 0 {
			continue
		}
		before, after = append(before, p.Old), append(after, p.New)
		if p.Noisy {
			c.Noisy++
		}
		if f.More {
			p.Old, p.New = p.New, p.Old
		}
		c.Ratios = append(c.Ratios, p.New/p.Old)
	}
	c.Pairs, c.Old, c.New, c.Ratio = len(c.Ratios), Median(before), Median(after), Median(c.Ratios)
	var ok bool
	c.Low, c.High, ok = medianInterval(c.Ratios)
	c.Decision = decide(c.Low, c.High, ok && 2*c.Noisy <= c.Pairs)
	return c
}

// decide decides by the interval of a ratio. A wide interval decides only if it is on one side of
// the bound. Without a valid interval there is no decision.
func decide(low, high float64, valid bool) string {
	switch {
	case !valid:
		return Undecided
	case high <= notSlower:
		return NotSlower
	case low > notSlower, low > 1 && high-low <= tooWide:
		return Slower
	}
	return Undecided
}

// Wide reports whether the comparison needs more pairs.
func (c *Comparison) Wide() bool { return c.High == 0 || c.High-c.Low > tooWide }

// WriteTable writes comparisons as a table.
func WriteTable(w io.Writer, list []*Comparison) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "workload\tfigure\told\tnew\tratio\t95 % interval\tpairs\tverdict")
	for _, c := range list {
		interval, pairs := "-", fmt.Sprint(c.Pairs)
		if c.High > 0 {
			interval = fmt.Sprintf("%.3f to %.3f", c.Low, c.High)
		}
		if c.Noisy > 0 {
			pairs += fmt.Sprintf(" (%d noisy)", c.Noisy)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.3f\t%s\t%s\t%s\n",
			c.Workload, c.Figure, c.text(c.Old), c.text(c.New), c.Ratio, interval, pairs, c.Decision)
	}
	return t.Flush()
}
