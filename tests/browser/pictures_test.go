package browser

import (
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// TestPictures makes the pictures of the documents: it lets a market run for some minutes of its
// time, and loses a trade and the connection.
func TestPictures(t *testing.T) {
	if os.Getenv("RUEDA_PICTURES") == "" {
		t.Skip("RUEDA_PICTURES names no folder for pictures")
	}
	gateway := dev(t, "--speed", "12")
	p := open(t, gateway, "/console/#/watch?theme=light&lang=en")
	p.signIn("demo")
	time.Sleep(75 * time.Second)
	p.picture("console-market")
	p.visit(instrument(ggal))
	p.until("candles", `document.querySelector(".chart canvas") && !document.querySelector(".chart > .empty")`)
	js[bool](p, `import("/console/app/wire.js").then((m) => m.sendLive('{"action":"sim","fault":"gap","id":"t1"}'))`)
	p.until("the trade is recovered", `document.querySelector(".tape tr.recovered")`)
	time.Sleep(3 * time.Second)
	p.picture("console")
	js[bool](p, `import("/console/app/wire.js").then((m) => m.sendLive('{"action":"sim","fault":"disconnect","id":"t2"}'))`)
	p.until("the connection is lost", `document.querySelector(".state.waiting, .state.connecting") || document.querySelector(".tape tr.break")`)
	p.picture("console-lost")
	p.live()
	p.until("the theme", `document.documentElement.dataset.theme === "dark" || (document.querySelectorAll(".controls button")[1].click(), false)`)
	time.Sleep(20 * time.Second)
	p.picture("console-dark")
	p.visit("#/health")
	time.Sleep(8 * time.Second)
	p.picture("console-connection")
	p.visit("#/inspect?type=T")
	p.button("Pause")
	p.do(chromedp.WaitVisible(`.log tr.in .raw`, chromedp.ByQuery))
	p.click(`.log tr.in .raw`)
	p.until("the members", `document.querySelector(".detail dd span")`)
	p.picture("console-messages")
	p.visit("#/sim")
	p.click(`[data-fault=halt]`)
	time.Sleep(time.Second)
	p.picture("console-simulator")
}
