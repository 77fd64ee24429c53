package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// signInToDocs signs in with the dialog of the documentation.
func (p *page) signInToDocs() {
	p.t.Helper()
	p.click(".account")
	p.do(chromedp.WaitVisible(`dialog input[name=username]`, chromedp.ByQuery))
	p.fill(`dialog input[name=username]`, "demo")
	p.fill(`dialog input[name=password]`, "demo\r")
	p.until("signed in", `document.querySelector(".account").textContent.includes("Sign out demo")`)
}

// noToken checks that no token is visible.
func (p *page) noToken() {
	p.t.Helper()
	if text := js[string](p, `document.body.innerText`); strings.Contains(text, "eyJ") {
		p.t.Errorf("the page shows a token: %s", text)
	}
}

// TestDocsSend sends a request and a message from the documentation, with the reader's own token,
// which is never shown and is complete in copied programs. The reader stays signed in from page to
// page.
func TestDocsSend(t *testing.T) {
	t.Parallel()
	p := open(t, dev(t), "/docs/api/getBook", func(p *page) { p.allowed = []string{"status of 422"} })
	p.do(chromedp.WaitVisible(`form.send button[type=submit]`, chromedp.ByQuery))
	p.click("form.send button[type=submit]") // asks for a login first
	p.do(chromedp.WaitVisible(`dialog input[name=username]`, chromedp.ByQuery))
	p.do(chromedp.KeyEvent(kb.Escape))
	p.signInToDocs()
	p.click("form.send button[type=submit]")
	p.until("an order book", `document.querySelector(".answer").textContent.includes('"type": "O"')`)
	if said := p.text("form.send output"); !strings.HasPrefix(said, "200") {
		t.Errorf("the page says %q", said)
	}
	p.fill(`form.send input[name=instrument]`, "NOPE|BYMA|CI")
	p.click("form.send button[type=submit]")
	p.until("an error", `document.querySelector(".answer").textContent.includes("unknown_instrument")`)
	js[bool](p, `(navigator.clipboard.writeText = async (text) => { globalThis.copied = text; }, true)`)
	for _, language := range []string{"curl", "Go", "Python", "TypeScript"} {
		p.button(language)
		js[bool](p, `(globalThis.copied = "", document.querySelector(".program:not([hidden]) .copy").click(), true)`)
		p.until("copied", `globalThis.copied`)
		text := js[string](p, "globalThis.copied")
		if !strings.Contains(text, "Bearer eyJ") || !strings.Contains(text, p.url+"/market/book") || strings.HasSuffix(text, "Copy") {
			t.Errorf("copied in %s: %s", language, text)
		}
	}
	p.noToken()
	p.picture("docs-route")

	p.do(chromedp.Navigate(p.url + "/docs/stream/trades"))
	p.until("still signed in", `document.querySelector(".account")?.textContent.includes("Sign out")`)
	p.click("form.live button[type=submit]")
	p.until("a trade", `document.querySelector(".frames").textContent.includes('"type":"T"')`)
	if text := p.text(".frames"); !strings.Contains(text, `"token":"••••"`) || !strings.Contains(text, `"type":"Success"`) {
		t.Errorf("the page shows %.500s", text)
	}
	p.noToken()
	p.picture("docs-channel")
	p.button("Disconnect")
	p.until("closed", `document.querySelector("form.live output").textContent.startsWith("Closed: 1000")`)
	p.do(chromedp.Navigate(p.url + "/docs/api/getTokens"))
	p.click("form.send button[type=submit]")
	p.until("tokens that are masked", `/"access_token": "••••"/.test(document.querySelector(".answer").textContent)`)
	p.noToken()
	p.click(".account")
	p.until("signed out", `document.querySelector(".account").textContent === "Sign in"`)
}

// TestDocsSearch finds a page by typing and by keys alone.
func TestDocsSearch(t *testing.T) {
	t.Parallel()
	p := open(t, dev(t), "/docs")
	p.do(chromedp.WaitVisible(".account", chromedp.ByQuery), chromedp.KeyEvent("/"))
	p.until("the key of the search", `document.activeElement.name === "q"`)
	p.fill(".find input", "token_expired")
	p.until("results", `document.querySelectorAll(".found a").length > 0`)
	p.do(chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter))
	p.until("the page of the reason", `location.pathname === "/docs/reasons/token_expired" && document.querySelector("h1")?.textContent === "token_expired"`)
	p.until("its script", `document.querySelector(".account")`)
	p.do(chromedp.KeyEvent(kb.Tab))
	p.until("the first key leads past the menu", `document.activeElement?.className === "skip"`)
	p.click(`.tools a[hreflang="es"]`)
	p.until("the same page in Spanish", `location.pathname === "/docs/es/reasons/token_expired" && document.body?.innerText.includes("Terminó el plazo")`)
}

// TestDocsWithoutScript reads and searches the documentation without JavaScript.
func TestDocsWithoutScript(t *testing.T) {
	t.Parallel()
	p := open(t, dev(t), "/livez")
	p.do(emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(p.url+"/docs/api/getBook"), chromedp.WaitVisible("h1", chromedp.ByQuery))
	for _, language := range []string{"curl", "go", "python", "typescript"} {
		p.do(chromedp.WaitVisible(`[data-language=`+language+`] pre`, chromedp.ByQuery))
	}
	p.do(chromedp.WaitNotVisible("form.send", chromedp.ByQuery))
	p.do(chromedp.SendKeys(`.find input`, "signing keys\r", chromedp.ByQuery), chromedp.WaitVisible("#results a", chromedp.ByQuery))
}

// TestDocsLayout opens pages in both languages and themes, on a desk and on a phone. Nothing is
// wider than the screen, and each control has a name.
func TestDocsLayout(t *testing.T) {
	t.Parallel()
	p := open(t, dev(t), "/docs")
	pages := strings.Fields("/docs /docs/protocol /docs/client-tutorial /docs/api /docs/api/getBook /docs/api/getTokens /docs/stream /docs/stream/order_book /docs/reasons /docs/reasons/slow_client /docs/search?q=book /client/ /client/es")
	for _, width := range []int64{1440, 360} {
		for i, at := range pages {
			for _, lang := range []string{"", "/es"} {
				theme := []string{"light", "dark"}[i%2]
				p.do(chromedp.EmulateViewport(width, 900), chromedp.Navigate(p.url+strings.Replace(at, "/docs", "/docs"+lang, 1)))
				p.until("a button to sign in", `document.querySelector(".account")`)
				js[bool](p, fmt.Sprintf(`(document.documentElement.dataset.theme = %q, true)`, theme))
				if wide := js[string](p, tooWide); wide != "" {
					t.Errorf("%s%s at %d: %s", lang, at, width, wide)
				}
				if unnamed := js[string](p, withoutName); unnamed != "" {
					t.Errorf("%s%s: without a name: %s", lang, at, unnamed)
				}
				name := strings.NewReplacer("/", "-", "?", "-", "=", "-").Replace(strings.Trim(at, "/"))
				p.picture(fmt.Sprintf("%s%s-%s-%d", name, strings.Replace(lang, "/", "-", 1), theme, width))
			}
		}
	}
}

// tooWide names an element that makes the page wider than the screen.
const tooWide = `(() => {
  const root = document.documentElement;
  if (root.scrollWidth <= root.clientWidth) return "";
  const wide = [...document.querySelectorAll("body *")].find((e) => e.getBoundingClientRect().right > root.clientWidth + 1 && !e.closest(".wide, pre"));
  return root.scrollWidth + " px: " + (wide?.outerHTML ?? "").slice(0, 200);
})()`

// withoutName names a control that has no name for a screen reader.
const withoutName = `[...document.querySelectorAll("input, select, textarea, button, a")]
  .filter((e) => !(e.textContent.trim() || e.ariaLabel || e.labels?.[0]?.textContent.trim()))
  .map((e) => e.outerHTML).join(" ").slice(0, 300)`

// TestDocsAxe checks pages of each kind in both themes with axe-core.
func TestDocsAxe(t *testing.T) {
	axe, err := os.ReadFile(filepath.Join(packages(t, "node/package.json", "node/package-lock.json"), "node_modules/axe-core/axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, dev(t), "/docs")
	for i, at := range strings.Fields("/docs /docs/es/protocol /docs/client-tutorial /docs/api /docs/es/api/getBook /docs/api/getTokens /docs/stream/trades /docs/reasons /docs/es/reasons/slow_client /docs/search?q=book /client/ /client/es") {
		p.do(chromedp.Navigate(p.url + at))
		p.until("a button to sign in", `document.querySelector(".account")`)
		js[bool](p, fmt.Sprintf(`(document.documentElement.dataset.theme = %q, true)`, []string{"light", "dark"}[i%2]))
		found := js[string](p, `(async () => {`+string(axe)+`;
			const r = await axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]});
			return r.violations.map((v) => v.id + " (" + v.impact + "): " + v.nodes.slice(0, 3).map((n) => n.target.join(" ")).join(" | ")).join("\n");
		})()`)
		if found != "" {
			t.Errorf("%s:\n%s", at, found)
		}
	}
}
