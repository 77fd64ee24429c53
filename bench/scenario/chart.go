package scenario

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"
)

// Chart is a bar chart in SVG.
type Chart struct {
	Title  string
	Unit   string
	Groups []Group
}

// Group is a named group of bars.
type Group struct {
	Name string
	Bars []Bar
}

// Bar is a value with its label.
type Bar struct {
	Name  string
	Value float64
	Text  string
}

// Dimensions of a chart in its own units.
const (
	chartWidth = 880
	barsFrom   = 190
	barsTo     = 740
	barHeight  = 18
	barStep    = 24
	groupGap   = 34
	chartTop   = 62
)

// color returns the color of a bar: Rueda, the ceiling, or another server.
func color(name string) (fill, stroke string) {
	switch {
	case strings.HasPrefix(name, "rueda"):
		return "#e7f0ea", "#4c8063"
	case strings.HasPrefix(name, "ceiling"):
		return "#efece5", "#8d8574"
	}
	return "#e9edf6", "#50689f"
}

// WriteSVG writes the chart.
func (c *Chart) WriteSVG(w io.Writer) error {
	top, height := 0.0, chartTop
	for _, g := range c.Groups {
		height += groupGap + len(g.Bars)*barStep
		for _, b := range g.Bars {
			top = max(top, b.Value)
		}
	}
	height += 16
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="14" role="img" aria-labelledby="t">`+"\n", chartWidth, height)
	fmt.Fprintf(&s, `  <title id="t">%s, %s: %s</title>`+"\n", escape(c.Title), escape(c.Unit), escape(c.words()))
	fmt.Fprintf(&s, `  <rect width="%d" height="%d" rx="12" fill="#fbfaf7"/>`+"\n", chartWidth, height)
	fmt.Fprintf(&s, `  <text x="24" y="34" font-size="17" fill="#2b2a27">%s</text><text x="%d" y="34" text-anchor="end" fill="#6d6658">%s</text>`+"\n",
		escape(c.Title), chartWidth-24, escape(c.Unit))
	y := chartTop
	for _, g := range c.Groups {
		fmt.Fprintf(&s, `  <text x="24" y="%d" fill="#6d6658">%s</text>`+"\n", y+14, escape(g.Name))
		y += groupGap - 8
		for _, b := range g.Bars {
			fill, stroke := color(b.Name)
			width := 0.0
			if top > 0 {
				width = math.Round(10*b.Value/top*(barsTo-barsFrom)) / 10
			}
			fmt.Fprintf(&s, `  <text x="%d" y="%d" text-anchor="end" fill="#2b2a27">%s</text>`, barsFrom-10, y+14, escape(b.Name))
			fmt.Fprintf(&s, `<rect x="%d" y="%d" width="%g" height="%d" rx="3" fill="%s" stroke="%s"/>`, barsFrom, y, max(width, 1), barHeight, fill, stroke)
			fmt.Fprintf(&s, `<text x="%g" y="%d" fill="#2b2a27">%s</text>`+"\n", barsFrom+width+8, y+14, escape(b.Text))
			y += barStep
		}
		y += 8
	}
	s.WriteString("</svg>\n")
	_, err := io.WriteString(w, s.String())
	return err
}

// words returns a text version of the chart.
func (c *Chart) words() string {
	var list []string
	for _, g := range c.Groups {
		var bars []string
		for _, b := range g.Bars {
			bars = append(bars, b.Name+" "+b.Text)
		}
		list = append(list, g.Name+": "+strings.Join(bars, ", "))
	}
	return strings.Join(list, "; ")
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // in memory: cannot fail
	return b.String()
}
