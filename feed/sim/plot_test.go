package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ruedahq/rueda/feed/sim/facts"
)

// Dimensions of the plot, in its own units.
const (
	plotWidth  = 880
	plotHeight = 420
	panelTop   = 76
	panelFoot  = 360
)

// plotColors returns the colours of the classes and of AAPL.
func plotColors() map[string]string {
	return map[string]string{
		"leading": "#4c8063", "sovereign": "#50689f", "general": "#a86f3c", "cedear": "#8a5a8f", "illiquid": "#8d8574", "AAPL, cited": "#2b2a27",
	}
}

// plot draws with a left and a right edge.
type plot struct{ strings.Builder }

func (p *plot) text(x, y float64, anchor, color, text string) {
	fmt.Fprintf(p, `  <text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, anchor, color, text)
}

func (p *plot) line(x1, y1, x2, y2 float64, color string, width float64) {
	fmt.Fprintf(p, `  <line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%g"/>`+"\n", x1, y1, x2, y2, color, width)
}

// drawFacts draws how the sides of marketable orders repeat, how wide spreads are, how trades
// cluster and how prices jump.
func drawFacts(rows map[string]*facts.Row) []byte {
	p := &plot{}
	fmt.Fprintf(p, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="12" role="img" aria-labelledby="t">`+"\n", plotWidth, plotHeight)
	p.WriteString(`  <title id="t">Stylised facts of a simulated day, by class, and of AAPL; the text has the figures</title>` + "\n")
	fmt.Fprintf(p, `  <rect width="%d" height="%d" rx="12" fill="#fbfaf7"/>`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(p, `  <text x="24" y="32" font-size="16" fill="#2b2a27">A simulated day, and AAPL (cited)</text>`+"\n")
	x := 24.0
	for _, name := range append(classNames(), "AAPL, cited") {
		fmt.Fprintf(p, `  <rect x="%.1f" y="%d" width="10" height="10" rx="2" fill="%s"/>`+"\n", x, plotHeight-26, plotColors()[name])
		p.text(x+16, plotHeight-17, "start", "#2b2a27", name)
		x += 120
	}
	measured := facts.Measured()
	p.signs(rows, &measured)
	p.spreads(rows)
	p.tails(rows, &measured)
	p.WriteString("</svg>\n")
	return []byte(p.String())
}

// signs draws the autocorrelation of signs over the logarithm of the lag.
func (p *plot) signs(rows map[string]*facts.Row, measured *facts.Row) {
	const left, right = 54.0, 300.0
	p.text(left-30, panelTop-14, "start", "#6d6658", "autocorrelation of signs, by lag")
	y := func(v float64) float64 { return panelFoot - 20 - max(0, v)*(panelFoot-20-panelTop) }
	for _, v := range []float64{0, .25, .5, .75, 1} {
		p.line(left, y(v), right, y(v), "#e3ded2", 1)
		p.text(left-6, y(v)+4, "end", "#6d6658", fmt.Sprintf("%g", v))
	}
	lags := []float64{1, 2, 5, 10, 20}
	at := func(lag float64) float64 { return left + 8 + math.Log(lag)/math.Log(20)*(right-left-16) }
	for _, lag := range lags {
		p.text(at(lag), panelFoot, "middle", "#6d6658", fmt.Sprintf("%g", lag))
	}
	draw := func(name string, r *facts.Row) {
		var points []string
		for i, lag := range lags {
			points = append(points, fmt.Sprintf("%.1f,%.1f", at(lag), y(float64(r.SignACF[i]))))
		}
		dash := ""
		if r == measured {
			dash = ` stroke-dasharray="5 3"`
		}
		fmt.Fprintf(p, `  <polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/>`+"\n", strings.Join(points, " "), plotColors()[name], dash)
	}
	for _, name := range classNames() {
		draw(name, rows[name])
	}
	draw("AAPL, cited", measured)
}

// spreads draws p10 to p90 and the median, in basis points, on a logarithmic scale.
func (p *plot) spreads(rows map[string]*facts.Row) {
	const left, right = 340.0, 570.0
	p.text(left, panelTop-14, "start", "#6d6658", "spread in basis points, p10 p50 p90")
	at := func(v float64) float64 { return left + math.Log(v/.5)/math.Log(100/.5)*(right-left) }
	for _, v := range []float64{1, 10, 100} {
		p.line(at(v), panelTop, at(v), panelFoot-20, "#e3ded2", 1)
		p.text(at(v), panelFoot, "middle", "#6d6658", fmt.Sprintf("%g", v))
	}
	for i, name := range classNames() {
		y := panelTop + 28 + 50*float64(i)
		s := rows[name].SpreadBasis
		p.line(at(float64(s[0])), y, at(float64(s[2])), y, plotColors()[name], 8)
		fmt.Fprintf(p, `  <circle cx="%.1f" cy="%.1f" r="7" fill="#fbfaf7" stroke="%s" stroke-width="2"/>`+"\n", at(float64(s[1])), y, plotColors()[name])
	}
}

// tails draws figures that are single numbers, on a logarithmic scale.
func (p *plot) tails(rows map[string]*facts.Row, measured *facts.Row) {
	const left, right = 620.0, 850.0
	p.text(left, panelTop-14, "start", "#6d6658", "one figure a class")
	at := func(v float64) float64 { return left + math.Log(v)/math.Log(100)*(right-left) }
	for _, v := range []float64{1, 3, 10, 30, 100} {
		p.line(at(v), panelTop, at(v), panelFoot-20, "#e3ded2", 1)
		p.text(at(v), panelFoot, "middle", "#6d6658", fmt.Sprintf("%g", v))
	}
	for i, f := range []facts.Fact{
		{Name: "kurtosis of minute returns", Of: func(r *facts.Row) facts.Figure { return r.Kurtosis }},
		{Name: "Fano factor of trades a second", Of: func(r *facts.Row) facts.Figure { return r.Fano }},
		{Name: "orders added to a trade", Of: func(r *facts.Row) facts.Figure { return r.AddsPerTrade }},
	} {
		y := panelTop + 40 + 86*float64(i)
		p.text(left, y-16, "start", "#2b2a27", f.Name)
		p.line(left, y, right, y, "#cfc8b8", 1)
		draw := func(name string, r *facts.Row) {
			if v := f.Of(r); v.Known() && v > 0 {
				fmt.Fprintf(p, `  <circle cx="%.1f" cy="%.1f" r="6" fill="%s" fill-opacity="0.85"/>`+"\n", at(min(max(float64(v), 1), 100)), y, plotColors()[name])
			}
		}
		for _, name := range classNames() {
			draw(name, rows[name])
		}
		draw("AAPL, cited", measured)
	}
}

// drawDay draws the price, the spread and the volume of a share over a day, and how volume, spreads
// and depth of all instruments change over the day.
func drawDay(c allCurves) []byte {
	p := &plot{}
	fmt.Fprintf(p, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="12" role="img" aria-labelledby="t">`+"\n", plotWidth, dayHeight)
	p.WriteString(`  <title id="t">A simulated day of GGAL in 24hs: price, spread and volume; and the means of all instruments by half hours</title>` + "\n")
	fmt.Fprintf(p, `  <rect width="%d" height="%d" rx="12" fill="#fbfaf7"/>`+"\n", plotWidth, dayHeight)
	i := slices.IndexFunc(c, func(x *curves) bool { return x.in.ID.Symbol == "GGAL" && x.in.ID.Term == nextDay })
	var prices, spreads, volumes []float64
	for k, m := range c[i].minutes {
		prices, spreads = append(prices, m.price), append(spreads, m.spread)
		if k%5 == 0 {
			volumes = append(volumes, 0)
		}
		volumes[k/5] += m.volume
	}
	p.panel(54, 40, "GGAL, mid price each minute, in pesos", true, curve{prices, "#4c8063", ""})
	p.panel(494, 40, "GGAL, spread each minute, in basis points", false, curve{spreads, "#50689f", ""})
	p.panel(54, 260, "GGAL, size traded in five minutes", false, curve{volumes, "#a86f3c", ""})
	volume, spread, depth := c.intraday()
	p.panel(494, 260, "all instruments, by half hours, mean of the day = 1", false,
		curve{volume, "#a86f3c", "volume"}, curve{spread, "#50689f", "spread"}, curve{depth, "#8d8574", "depth"})
	p.WriteString("</svg>\n")
	return []byte(p.String())
}

const dayHeight = 450

// curve is a line of a panel.
type curve struct {
	values []float64
	color  string
	name   string // in the legend
}

// panel draws curves over the time of continuous trading, from 11:00 to 17:00.
func (p *plot) panel(left, top float64, title string, float bool, list ...curve) {
	const width, height = 350.0, 150.0
	low, high := 0.0, 0.0
	if float {
		low = slices.Min(list[0].values)
	}
	for _, c := range list {
		high = max(high, slices.Max(c.values))
	}
	y := func(v float64) float64 { return top + height - (v-low)/(high-low)*height }
	p.text(left-30, top-14, "start", "#6d6658", title)
	for _, share := range []float64{0, .5, 1} {
		v := low + share*(high-low)
		p.line(left, y(v), left+width, y(v), "#e3ded2", 1)
		label := fmt.Sprintf("%.0f", v)
		if high < 10 {
			label = fmt.Sprintf("%.1f", v)
		}
		p.text(left-6, y(v)+4, "end", "#6d6658", label)
	}
	for hour := range 7 {
		p.text(left+width*float64(hour)/6, top+height+16, "middle", "#6d6658", fmt.Sprint(11+hour))
	}
	for i, c := range list {
		var points []string
		for k, v := range c.values {
			points = append(points, fmt.Sprintf("%.1f,%.1f", left+width*(float64(k)+.5)/float64(len(c.values)), y(v)))
		}
		fmt.Fprintf(p, `  <polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", strings.Join(points, " "), c.color)
		if c.name != "" {
			p.text(left+width/2-60+60*float64(i), top+14, "middle", c.color, c.name)
		}
	}
}
