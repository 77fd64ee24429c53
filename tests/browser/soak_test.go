package browser

import (
	"context"
	"math"
	"os"
	"testing"
	"time"

	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// TestHeapSoak measures the heap of the page after a collection of garbage, while it receives about
// 2,000 messages a second. The heap may fill what the page keeps of trades and messages, which is
// limited, and must then stay flat. With RUEDA_SOAK it measures for ten minutes.
func TestHeapSoak(t *testing.T) {
	fill, length, every, allowed := 15*time.Second, 45*time.Second, 5*time.Second, 25e6
	if os.Getenv("RUEDA_SOAK") != "" {
		fill, length, every, allowed = 2*time.Minute, 10*time.Minute, 30*time.Second, 2e6
	}
	p := open(t, dev(t, "--speed", "10"), "/console/"+instrument(ggal))
	p.signIn("demo")
	p.until("a verified book", `document.querySelector(".ladder table").dataset.valid === "true"`)
	p.wantAll()
	time.Sleep(fill)
	received := `import("/console/app/wire.js").then((m) => m.counted.in)`
	before, began := js[int](p, received), time.Now()
	var at, heap []float64
	for {
		at, heap = append(at, time.Since(began).Seconds()), append(heap, p.heap())
		t.Logf("figure: after %.0f s the heap has %.2f MB", at[len(at)-1], heap[len(heap)-1]/1e6)
		if time.Since(began) >= length {
			break
		}
		time.Sleep(every)
	}
	seconds := time.Since(began).Seconds()
	rate := float64(js[int](p, received)-before) / seconds
	slope, deviation := fit(at, heap)
	growth, noise := slope*seconds, 3*deviation*seconds
	t.Logf("figure: %.0f messages/s for %.0f s, %d measurements: the heap grows by %.2f MB, with a noise of %.2f MB", rate, seconds, len(at), growth/1e6, noise/1e6)
	if rate < 1000 {
		t.Errorf("only %.0f messages/s", rate)
	}
	if growth > noise+allowed {
		t.Errorf("the heap grows by %.2f MB in %.0f s, noise %.2f MB, allowed %.2f MB", growth/1e6, seconds, noise/1e6, allowed/1e6)
	}
}

// heap returns the bytes that scripts use after a collection of garbage.
func (p *page) heap() (used float64) {
	p.t.Helper()
	p.do(heapprofiler.CollectGarbage(), chromedp.ActionFunc(func(ctx context.Context) (err error) {
		used, _, _, _, err = runtime.GetHeapUsage().Do(ctx)
		return err
	}))
	return used
}

// fit returns the slope of the least squares line through points, and its standard deviation.
func fit(x, y []float64) (slope, deviation float64) {
	n := float64(len(x))
	var meanX, meanY, xx, xy, rest float64
	for i := range x {
		meanX, meanY = meanX+x[i]/n, meanY+y[i]/n
	}
	for i := range x {
		xx += (x[i] - meanX) * (x[i] - meanX)
		xy += (x[i] - meanX) * (y[i] - meanY)
	}
	slope = xy / xx
	for i := range x {
		d := y[i] - meanY - slope*(x[i]-meanX)
		rest += d * d
	}
	return slope, math.Sqrt(rest / (n - 2) / xx)
}
