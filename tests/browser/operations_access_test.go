package browser

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// operationsViews returns the hashes of the views of the operations page by name.
func operationsViews(user string) map[string]string {
	return map[string]string{
		"overview": "#/overview", "connections": "#/connections", "feeds": "#/feeds", "users": "#/users", "user": "#/users?id=" + user,
		"logins": "#/logins?user=" + user, "limits": "#/limits", "keys": "#/keys", "audit": "#/audit",
	}
}

// settled waits until a view has its data.
func (p *page) settled(name string) {
	p.t.Helper()
	p.until(name+" is loaded", `document.querySelector("main")?.innerText.length > 10 && !/Loading|Waiting|Cargando|Esperando/.test(document.querySelector("main").innerText)`)
}

// TestOperationsAxe checks every view in both themes with axe-core: names, roles, order, contrast.
func TestOperationsAxe(t *testing.T) {
	axe, err := os.ReadFile(filepath.Join(packages(t, "node/package.json", "node/package-lock.json"), "node_modules/axe-core/axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	g := serve(t)
	id := g.addUser("maria")
	g.connect(g.login("maria"))
	p := open(t, g.admin, "/operations/")
	check := func(what string) {
		t.Helper()
		found := js[string](p, `(async () => {`+string(axe)+`;
			const r = await axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]});
			return r.violations.map((v) => v.id + " (" + v.impact + "): " + v.nodes.slice(0, 3).map((n) => n.target.join(" ") + " " + n.failureSummary.split("\n").slice(1).join(";")).join(" | ")).join("\n");
		})()`)
		if found != "" {
			t.Errorf("%s:\n%s", what, found)
		}
	}
	p.do(chromedp.WaitVisible(`#token`, chromedp.ByQuery))
	check("sign-in")
	p.fill("#token", operatorToken("identity")+"\r")
	p.until("the operator is signed in", `document.querySelector("nav.nav")`)
	for _, theme := range []string{"light", "dark"} {
		p.until("the theme", `document.documentElement.dataset.theme === "`+theme+`" || (document.querySelector('button[aria-label="Dark or light"]').click(), false)`)
		for name, hash := range operationsViews(id) {
			p.visit(hash)
			p.settled(name)
			check(name + " " + theme)
		}
	}
	p.visit("#/connections")
	p.settled("connections")
	p.click(`main tbody button.danger`)
	p.until("the page asks", `document.querySelector("dialog[open]")`)
	check("dialog")
}

// TestOperationsPhone uses the views at a width of 360 px.
func TestOperationsPhone(t *testing.T) {
	g := serve(t)
	id := g.addUser("maria")
	g.connect(g.login("maria"))
	p := g.operatorPage("identity")
	p.do(chromedp.EmulateViewport(360, 780, chromedp.EmulateScale(2)))
	for name, hash := range operationsViews(id) {
		p.visit(hash)
		p.settled(name)
		time.Sleep(300 * time.Millisecond) // plots take their new width
		if width := js[int](p, `document.documentElement.scrollWidth - innerWidth`); width > 0 {
			t.Errorf("%s is %d px too wide", name, width)
		}
		if !js[bool](p, `[...document.querySelectorAll(".top a, .top button")].every((e) => { const r = e.getBoundingClientRect(); return r.width > 0 && r.left >= 0 && r.right <= innerWidth; })`) {
			t.Errorf("%s: a link or button of the header is not in view", name)
		}
		p.picture("operations-phone-" + name)
	}
}

// TestOperationsKeyboard signs in, opens a view, and closes a connection with keys alone.
func TestOperationsKeyboard(t *testing.T) {
	g := serve(t)
	g.addUser("maria")
	client := g.connect(g.login("maria"))
	p := g.operatorPage("operate")
	focus := func(what, expression string) {
		t.Helper()
		for range 60 {
			if js[bool](p, `Boolean(document.activeElement && (`+expression+`))`) {
				return
			}
			p.do(chromedp.KeyEvent("\t"))
		}
		t.Fatalf("no key reaches %s", what)
	}
	focus("the view", `document.activeElement.hash === "#/connections"`)
	p.do(chromedp.KeyEvent("\r"))
	p.until("the connection is listed", `document.querySelector("main tbody")?.innerText.includes("maria")`)
	focus("the button", `document.activeElement.getAttribute("aria-label")?.startsWith("Close connection")`)
	p.do(chromedp.KeyEvent("\r"))
	p.until("the page asks", `document.querySelector("dialog[open]")`)
	focus("the answer", `document.activeElement.innerText === "Close connection"`)
	p.do(chromedp.KeyEvent("\r"))
	client.until("the client is closed", `window.code === 4503`)
}
