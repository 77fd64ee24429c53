package operation

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sample is a value of a metric.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

// page has the figures of a gateway at one time.
type page struct {
	samples []sample
	at      time.Time // by the clock of this machine
	clock   time.Time // by that of the gateway, in whole seconds; zero: unknown
}

// maxSamples bounds the values of a page, some of which are compared with all others. The page of a
// gateway has a few hundred, and some more for each feed and market.
const maxSamples = 10_000

// parse reads a page in the text format of Prometheus.
func parse(in io.Reader) (*page, error) {
	label := regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
	p := &page{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		line := lines.Text()
		key, text, ok := cutLast(line)
		if line == "" || line[0] == '#' {
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		if !ok || err != nil {
			return nil, fmt.Errorf("%.60q is not a line of metrics", line)
		}
		if len(p.samples) == maxSamples {
			return nil, fmt.Errorf("the answer has more than %d metrics", maxSamples)
		}
		s := sample{value: value, labels: map[string]string{}}
		var labels string
		s.name, labels, _ = strings.Cut(key, "{")
		for _, m := range label.FindAllStringSubmatch(labels, -1) {
			s.labels[m[1]] = m[2]
		}
		p.samples = append(p.samples, s)
	}
	return p, lines.Err()
}

// cutLast cuts a line at its last space.
func cutLast(line string) (before, after string, ok bool) {
	i := strings.LastIndexByte(line, ' ')
	if i < 0 {
		return line, "", false
	}
	return line[:i], line[i+1:], true
}

// all returns the samples of a metric that have all of these labels: name, value, name, value.
func (p *page) all(name string, labels ...string) (list []sample) {
	for _, s := range p.samples {
		if s.name == name && s.has(labels) {
			list = append(list, s)
		}
	}
	return list
}

func (s *sample) has(labels []string) bool {
	for i := 0; i+1 < len(labels); i += 2 {
		if s.labels[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}

// sum returns the sum of those samples.
func (p *page) sum(name string, labels ...string) (total float64) {
	for _, s := range p.all(name, labels...) {
		total += s.value
	}
	return total
}

// rate returns how much a counter has grown in a second since an earlier page. A counter that is
// smaller than before began at 0 in between.
func (p *page) rate(before *page, name string, labels ...string) float64 {
	grown, took := p.sum(name, labels...)-before.sum(name, labels...), p.at.Sub(before.at).Seconds()
	if took <= 0 || grown < 0 {
		return 0
	}
	return grown / took
}

// quantile returns an upper bound of a quantile of the times that a histogram has taken since an
// earlier page; ok is false if there were none.
func (p *page) quantile(before *page, q float64, name string) (d time.Duration, ok bool) {
	type bucket struct{ bound, count float64 }
	var list []bucket
	for _, s := range p.all(name + "_bucket") {
		bound, err := strconv.ParseFloat(s.labels["le"], 64)
		if err != nil {
			continue
		}
		list = append(list, bucket{bound, s.value - before.sum(name+"_bucket", "le", s.labels["le"])})
	}
	slices.SortFunc(list, func(a, b bucket) int { return int(math.Copysign(1, a.bound-b.bound)) })
	if len(list) == 0 || list[len(list)-1].count <= 0 {
		return 0, false
	}
	for _, b := range list {
		if b.count >= q*list[len(list)-1].count && !math.IsInf(b.bound, 1) {
			return time.Duration(b.bound * float64(time.Second)), true
		}
	}
	return time.Duration(math.MaxInt64), true
}

// version returns the version of the gateway.
func (p *page) version() string {
	for _, s := range p.all("rueda_build_info") {
		return s.labels["version"]
	}
	return ""
}

// size returns a number of bytes for people.
func size(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for n >= 1024 && len(units) > 1 {
		n, units = n/1024, units[1:]
	}
	return strconv.FormatFloat(n, 'f', precision(n, units[0]), 64) + " " + units[0]
}

func precision(n float64, unit string) int {
	if unit == "B" || n >= 100 {
		return 0
	}
	return 1
}

// span returns a duration for people.
func span(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return strconv.Itoa(int(d/(24*time.Hour))) + " days"
	case d >= time.Minute:
		return d.Round(time.Minute).String()[:len(d.Round(time.Minute).String())-2]
	case d >= time.Second:
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}

// since returns the time since a Unix time of a page.
func (p *page) since(seconds float64) time.Duration {
	return p.at.Sub(time.Unix(0, int64(seconds*1e9)))
}

// looksLikePage reports whether an answer is the page of a gateway.
func looksLikePage(body []byte) bool { return bytes.Contains(body, []byte("\nrueda_build_info{")) }
