package browser

import (
	"fmt"
	"net"
	"net/url"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestStoredScript shows an instrument whose symbol, name and reason of a halt are HTML with a
// script, and addresses of the page with the same text. All are shown as text.
func TestStoredScript(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	feed := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	gateway := dev(t, "--ndjson", feed)
	c, err := net.Dial("tcp", feed)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const symbol = `<svg/onload=hit=1>`
	const text = `<img src=x onerror=hit=1>`
	const id = symbol + "|EVIL|CI"
	if _, err := fmt.Fprintf(c, `{"type":"Hello"}
{"type":"F","I":%q,"name":%q,"currency":%q,"price_decimals":2,"size_decimals":0}
{"type":"O","I":%q,"R":true,"B":[[7049.5,300]],"A":[[7050,1200]]}
{"type":"T","I":%q,"P":7050,"Z":120,"G":"B"}
{"type":"H","I":%q,"E":"halt","Y":%q}
`, id, text, "<i>", id, id, id, text); err != nil {
		t.Fatal(err)
	}
	p := open(t, gateway, "/console/")
	p.signIn("demo")
	p.until("a watchlist", `document.querySelectorAll(".quotes tbody tr").length >= 5`)
	p.fill(`[data-find]`, "evil")
	p.fill(`[data-find]`, "svg/onload")
	p.until("the instrument is found", fmt.Sprintf(`document.querySelector("[role=option] b")?.textContent === %q`, symbol))
	p.visit("#/i/" + url.PathEscape(id))
	p.until("its name", fmt.Sprintf(`document.querySelector(".head .name")?.textContent.includes(%q)`, text))
	p.until("its book", `document.querySelector(".ladder table").dataset.valid === "true"`)
	p.visit("#/i/" + url.PathEscape(text+"|BYMA|CI"))
	p.until("an unknown instrument", `document.querySelector(".missing h1")`)
	for _, view := range []string{"watch", "history", "inspect", "sim", "nothing", text} {
		p.visit("#/" + url.PathEscape(view) + "?list=" + url.QueryEscape(text+"|A|B") + "&text=" + url.QueryEscape(text) + "&instrument=" + url.QueryEscape(text))
		p.do(chromedp.WaitVisible("h1", chromedp.ByQuery))
		if js[bool](p, `"hit" in globalThis || Boolean(document.querySelector("img, main svg:not([viewBox]), i[onclick]"))`) {
			t.Errorf("%s made elements of a text", view)
		}
	}
}
