// Package metrics is the page for Prometheus. The gateway counts in its own packages, in plain
// fields and without this package. At a scrape, a function returns a [Snapshot] of all figures, and
// the table in families.go makes metrics of it. [Tables] is the same table for docs/metrics.md.
//
// No metric has a label with a value that a client chooses: the number of series is bounded.
//
// # Concurrency
//
// A Page is safe for concurrent use if its function is.
package metrics

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ruedahq/rueda/internal/base/histogram"
)

// Page answers scrapes.
type Page struct{ handler http.Handler }

// New returns a Page of the figures that snapshot returns, of the Go runtime and of the process.
func New(snapshot func() *Snapshot, log *slog.Logger) (*Page, error) {
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		newCollector(snapshot), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return &Page{promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog: errorLog{log}, ErrorHandling: promhttp.ContinueOnError, DisableCompression: true,
	})}, nil
}

// Body returns a scrape in the text format of Prometheus, and its media type.
func (p *Page) Body() (body []byte, media string) {
	a := &answer{header: http.Header{}}
	p.handler.ServeHTTP(a, &http.Request{Method: http.MethodGet, Header: http.Header{}})
	return a.body.Bytes(), a.header.Get("Content-Type")
}

// answer takes the answer of an HTTP handler.
type answer struct {
	header http.Header
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }
func (a *answer) WriteHeader(int)             {}

// errorLog logs what the library reports.
type errorLog struct{ log *slog.Logger }

func (l errorLog) Println(v ...any) {
	l.log.Error("metrics not complete", "error", fmt.Sprint(v...))
}

// collector makes metrics of snapshots.
type collector struct {
	snapshot func() *Snapshot
	families []family
	descs    []*prometheus.Desc
}

func newCollector(snapshot func() *Snapshot) *collector {
	c := &collector{snapshot: snapshot, families: families()}
	for i := range c.families {
		f := &c.families[i]
		c.descs = append(c.descs, prometheus.NewDesc(f.name, f.help, f.labels, nil))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s, now := c.snapshot(), time.Now()
	for i := range c.families {
		f, desc := &c.families[i], c.descs[i]
		send := func(m prometheus.Metric, err error) {
			if err != nil {
				m = prometheus.NewInvalidMetric(desc, err)
			}
			out <- m
		}
		kind := prometheus.GaugeValue
		if f.kind == counter {
			kind = prometheus.CounterValue
		}
		f.values(s, now, &emitter{
			value: func(v float64, labels ...string) { send(prometheus.NewConstMetric(desc, kind, v, labels...)) },
			times: func(h *histogram.Histogram, labels ...string) {
				send(prometheus.NewConstHistogram(desc, h.Count(), h.Sum().Seconds(), h.Cumulative(), labels...))
			},
		})
	}
}
