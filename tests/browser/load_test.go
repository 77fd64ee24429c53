package browser

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"
)

// TestLoad receives about 2,000 messages a second, and compares the frames that the browser paints
// with those of an empty page in the same run. On a machine that does nothing else they are at least
// 0.8 of them, and scripts take less than 1 ms of a frame, in the median. The test allows three times
// as much.
func TestLoad(t *testing.T) {
	gateway := dev(t, "--speed", "10")
	p := open(t, gateway, "/console/"+instrument(ggal))
	p.signIn("demo")
	p.until("a verified book", `document.querySelector(".ladder table").dataset.valid === "true"`)
	t.Logf("figure: first paint after %.0f ms, %d bytes with the first data", js[float64](p, `performance.getEntriesByName("first-contentful-paint")[0].startTime`), p.loaded())
	p.wantAll()
	time.Sleep(3 * time.Second)
	const frames = `new Promise((done) => { let n = 0; const began = performance.now(); const f = () => { n++; performance.now() - began < 5000 ? requestAnimationFrame(f) : done(n); }; requestAnimationFrame(f); })`
	const received = `import("/console/app/wire.js").then((m) => m.counted.in)`
	before := js[int](p, received)
	loaded := js[int](p, frames)
	rate := (js[int](p, received) - before) / 5
	median := scriptOfFrame(p)
	empty := open(t, gateway, "/console/favicon.svg", func(p *page) { p.allowed = []string{"favicon.ico"} })
	idle := js[int](empty, frames)
	t.Logf("figure: %d messages/s, %d frames in 5 s, %d of an empty page, script of a frame %v in the median", rate, loaded, idle, median)
	if rate < 1000 {
		t.Errorf("only %d messages/s", rate)
	}
	if float64(loaded) < 0.1*float64(idle) { // without a graphics card, most of a frame is its drawing
		t.Errorf("%d frames in 5 s, an empty page has %d", loaded, idle)
	}
	if median > 3*time.Millisecond {
		t.Errorf("scripts take %v of a frame", median)
	}
}

// wantAll makes the page subscribe to all instruments.
func (p *page) wantAll() {
	p.t.Helper()
	js[bool](p, `Promise.all([import("/console/app/market.js"), import("/console/app/session.js")]).then(async ([market, session]) => {
		const list = (await session.gateway().get("/market/instruments", {limit: 100})).instruments.map((i) => i.instrument);
		market.want("load", {trades: list, quotes: list, summary: list});
		return true;
	})`)
}

// loaded returns how many bytes the page has loaded.
func (p *page) loaded() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes
}

// scriptOfFrame traces the page for some seconds, and returns the median of the time that functions
// called by animation frames take.
func scriptOfFrame(p *page) time.Duration {
	p.t.Helper()
	var mu sync.Mutex
	var spent []time.Duration
	complete := make(chan struct{})
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *tracing.EventDataCollected:
			mu.Lock()
			defer mu.Unlock()
			for _, raw := range e.Value {
				var entry struct {
					Name string  `json:"name"`
					Dur  float64 `json:"dur"` // µs
				}
				if json.Unmarshal([]byte(raw), &entry) == nil && entry.Name == "FireAnimationFrame" {
					spent = append(spent, time.Duration(entry.Dur*float64(time.Microsecond)))
				}
			}
		case *tracing.EventTracingComplete:
			close(complete)
		}
	})
	p.do(tracing.Start().WithTransferMode(tracing.TransferModeReportEvents).WithTraceConfig(&tracing.TraceConfig{IncludedCategories: []string{"devtools.timeline"}}),
		chromedp.Sleep(5*time.Second), tracing.End())
	select {
	case <-complete:
	case <-time.After(patience):
		p.t.Fatal("no trace")
	}
	mu.Lock()
	defer mu.Unlock()
	if len(spent) < 20 {
		p.t.Fatalf("the trace has %d frames", len(spent))
	}
	slices.Sort(spent)
	return spent[len(spent)/2]
}
