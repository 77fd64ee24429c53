package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// screens takes pictures of pages in both languages and themes, wide and narrow.
type screens struct {
	*page
	folder string
}

// screen is a page in a state.
type screen struct {
	name, hash string
	ready      string // an expression that is true when it shows what it should
}

// screensFolder returns the folder for the pictures. Without one, the test is skipped.
func screensFolder(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("RUEDA_SCREENS")
	if folder == "" {
		t.Skip("RUEDA_SCREENS names no folder for the pictures")
	}
	return folder
}

func newScreens(t *testing.T, folder, gateway, path string) *screens {
	t.Helper()
	return &screens{open(t, gateway, path, allowing("ERR_CONNECTION", "status of 40", "status of 422", "WebSocket", "Failed to fetch")), folder}
}

// each calls a function for each language, theme and width. choose sets language and theme.
func (s *screens) each(choose func(lang, theme string), show func(suffix string)) {
	for _, size := range [][2]int64{{1440, 900}, {360, 780}} {
		if size[0] < 500 {
			s.do(chromedp.EmulateViewport(size[0], size[1], chromedp.EmulateMobile, chromedp.EmulateTouch))
		} else {
			s.do(chromedp.EmulateViewport(size[0], size[1]))
		}
		for _, lang := range []string{"en", "es"} {
			for _, theme := range []string{"light", "dark"} {
				choose(lang, theme)
				show(fmt.Sprintf("%s-%s-%d", lang, theme, size[0]))
			}
		}
	}
}

// shoot writes a picture of the whole page, at most 2,000 px of its height.
func (s *screens) shoot(name string) {
	s.t.Helper()
	time.Sleep(time.Second) // plots are drawn, and figures arrive
	s.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, _, _, _, _, size, err := cdppage.GetLayoutMetrics().Do(ctx)
		if err != nil {
			return err
		}
		clip := &cdppage.Viewport{Width: size.Width, Height: min(size.Height, 2000), Scale: 1}
		image, err := cdppage.CaptureScreenshot().WithFormat(cdppage.CaptureScreenshotFormatPng).WithCaptureBeyondViewport(true).WithClip(clip).Do(ctx)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(s.folder, name+".png"), image, 0o600)
	}))
	if width := js[int](s.page, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); width > 0 {
		s.t.Errorf("%s is %d px too wide", name, width)
	}
}

// views shows views of a page whose controls choose language and theme.
func (s *screens) views(area string, choose func(lang, theme string), list ...screen) {
	s.t.Helper()
	s.each(choose, func(suffix string) {
		for _, v := range list {
			s.visit(v.hash)
			if v.ready != "" {
				s.until(v.name+" in "+suffix, v.ready)
			}
			s.shoot(area + "-" + v.name + "-" + suffix)
		}
	})
}

// ofConsole chooses language and theme with the buttons of the console.
func (s *screens) ofConsole(lang, theme string) {
	s.until("the language", fmt.Sprintf(`document.documentElement.lang === %q || (document.querySelector(".controls button").click(), false)`, lang))
	s.until("the theme", fmt.Sprintf(`document.documentElement.dataset.theme === %q || (document.querySelectorAll(".controls button")[1].click(), false)`, theme))
}

// TestScreensOfConsole makes pictures of all pages of the console with data, without, and when the
// gateway does not answer.
func TestScreensOfConsole(t *testing.T) {
	folder := screensFolder(t)
	gateway, stop := devUntil(t, "--speed", "12")
	s := newScreens(t, folder, gateway, "/console/")
	s.do(chromedp.WaitVisible(`input[name=username]`, chromedp.ByQuery))
	s.each(s.ofConsole, func(suffix string) { s.shoot("console-login-full-" + suffix) })
	s.fill(`input[name=username]`, "nobody")
	s.fill(`input[name=password]`, "wrong\r")
	s.until("the password is refused", `document.querySelector("[role=alert].error")?.innerText`)
	s.each(s.ofConsole, func(suffix string) { s.shoot("console-login-refused-" + suffix) })
	s.do(chromedp.Reload(), chromedp.EmulateViewport(1440, 900))
	s.signIn("demo")
	s.views("console", s.ofConsole,
		screen{"watch-empty", "#/watch?list=", `document.querySelector(".watch .empty")`},
		screen{"instrument-missing", "#/i/NOPE%7CBYMA%7C24hs", `document.querySelector(".missing, .instrument")`},
		screen{"history-empty", "#/history/GGAL%7CBYMA%7C24hs?start=2040-01-01T00:00:00Z", `document.querySelector(".history .empty")`},
		screen{"health-empty", "#/health", `document.querySelectorAll(".uplot").length >= 7`},
		screen{"inspect-empty", "#/inspect?text=nothing+has+this", `!document.querySelector(".log tbody tr")`},
		screen{"sim-empty", "#/sim?instrument=AL30%7CBYMA%7CCI", `document.querySelector(".story .empty")`},
	)
	time.Sleep(60 * time.Second) // candles, plots
	s.visit("#/sim")
	s.do(chromedp.EmulateViewport(1440, 900), chromedp.WaitEnabled(`[data-fault=gap]`, chromedp.ByQuery))
	for _, fault := range []string{"gap", "bad_checksum", "correction", "cancel", "disconnect"} {
		s.click("[data-fault=" + fault + "]")
		time.Sleep(time.Second)
	}
	s.live()
	s.until("the end", `document.querySelector(".story li.back")`)
	s.views("console", s.ofConsole,
		screen{"watch-full", "#/watch", `document.querySelectorAll(".quotes td.bid:not(:empty)").length >= 5`},
		screen{"instrument-full", instrument(ggal), `document.querySelector(".ladder table")?.dataset.valid === "true" && document.querySelector(".chart canvas")`},
		screen{"history-full", "#/history/GGAL%7CBYMA%7C24hs", `document.querySelectorAll(".history tbody td").length > 20`},
		screen{"history-bars", "#/history/GGAL%7CBYMA%7C24hs?of=bars", `document.querySelector(".history tbody td")`},
		screen{"accounts-full", "#/accounts", `document.querySelector(".scopes code") && document.querySelectorAll(".accounts table").length === 2`},
		screen{"health-full", "#/health", `document.querySelectorAll(".uplot").length >= 7`},
		screen{"inspect-full", "#/inspect?type=T", `document.querySelector(".log tr.in .raw") && (document.querySelector(".detail dl") || (document.querySelector(".log tr.in .raw").click(), false))`},
		screen{"sim-full", "#/sim", `document.querySelector(".story li.recovered")`},
	)
	stop()
	s.until("the connection is lost", `!document.querySelector(".state.live")`)
	s.views("console", s.ofConsole,
		screen{"watch-failing", "#/watch", ""},
		screen{"instrument-failing", instrument(ggal), `document.querySelector(".instrument, .missing")`},
		screen{"history-failing", "#/history/GGAL%7CBYMA%7C24hs", `document.querySelector(".history .error")`},
		screen{"accounts-failing", "#/accounts", `document.querySelector(".accounts .error")`},
		screen{"health-failing", "#/health", ""},
		screen{"inspect-failing", "#/inspect", ""},
		screen{"sim-failing", "#/sim", ""},
	)
}

// TestScreensOfLimitedUser makes pictures of the pages of a user with few rights.
func TestScreensOfLimitedUser(t *testing.T) {
	s := newScreens(t, screensFolder(t), dev(t), "/console/")
	s.signIn("basic")
	s.views("console", s.ofConsole,
		screen{"watch-limited", "#/watch", `document.querySelector(".quotes td.bid:not(:empty)")`},
		screen{"instrument-limited", instrument(ggal), `document.querySelector(".veil")?.innerText && document.querySelector(".tape .empty")?.innerText`},
		screen{"history-limited", "#/history/GGAL%7CBYMA%7C24hs", `document.querySelector(".history .error")?.innerText`},
		screen{"accounts-limited", "#/accounts", `document.querySelector(".accounts .error, .accounts .empty, .accounts table")`},
		screen{"sim-limited", "#/sim", `document.querySelector(".sim .notice")`},
	)
}

// TestScreensOfOperations makes pictures of the operations page.
func TestScreensOfOperations(t *testing.T) {
	folder := screensFolder(t)
	g := serve(t)
	s := newScreens(t, folder, g.admin, "/")
	choose := func(lang, theme string) {
		s.until("language and theme", fmt.Sprintf(`(() => {
			const [l, d] = [...document.querySelectorAll("header button.quiet, .signin button.quiet")];
			if (document.documentElement.lang !== %q) { l.click(); return false; }
			if (document.documentElement.dataset.theme !== %q) { d.click(); return false; }
			return true;
		})()`, lang, theme))
	}
	s.do(chromedp.WaitVisible(`#token`, chromedp.ByQuery))
	s.shoot("operations-signin-full-en-light-1440")
	s.fill("#token", operatorToken("identity")+"\r")
	s.until("the operator is signed in", `document.querySelector("nav.nav")`)
	loaded := `document.querySelector("main section") && !/Loading|Cargando/.test(document.querySelector("main").innerText)`
	s.views("operations", choose,
		screen{"connections-empty", "#/connections", loaded},
		screen{"users-empty", "#/users", loaded},
		screen{"logins-empty", "#/logins", ""},
		screen{"audit-empty", "#/audit?user=nobody", loaded},
	)
	id := g.addUser("maria")
	for range 3 {
		g.connect(g.login("maria"))
	}
	time.Sleep(20 * time.Second)
	s.views("operations", choose,
		screen{"overview-full", "#/overview", `document.querySelectorAll(".tile").length === 8`},
		screen{"connections-full", "#/connections", loaded},
		screen{"feeds-full", "#/feeds", loaded},
		screen{"users-full", "#/users", loaded},
		screen{"user-full", "#/users?id=" + id, `document.querySelector("main textarea")?.value`},
		screen{"logins-full", "#/logins?user=" + id, loaded},
		screen{"limits-full", "#/limits", loaded},
		screen{"keys-full", "#/keys", loaded},
		screen{"audit-full", "#/audit", loaded},
	)
	g.stop()
	s.until("no answer", `document.querySelector(".fresh.bad")`)
	s.views("operations", choose,
		screen{"overview-failing", "#/overview", ""},
		screen{"connections-failing", "#/connections", `document.querySelector(".failed")`},
		screen{"feeds-failing", "#/feeds", `document.querySelector(".failed")`},
		screen{"users-failing", "#/users", `document.querySelector(".failed")`},
		screen{"keys-failing", "#/keys", `document.querySelector(".failed")`},
		screen{"audit-failing", "#/audit", `document.querySelector(".failed")`},
	)
}

// TestScreensOfDocs makes pictures of the documentation.
func TestScreensOfDocs(t *testing.T) {
	s := newScreens(t, screensFolder(t), dev(t), "/docs")
	for name, at := range map[string]string{
		"home": "/docs", "console": "/docs/console", "faults": "/docs/faults", "tutorial": "/docs/client-tutorial", "routes": "/docs/api", "route": "/docs/api/getBook",
		"channels": "/docs/stream", "channel": "/docs/stream/order_book", "reasons": "/docs/reasons", "reason": "/docs/reasons/slow_client", "search": "/docs/search?q=book",
		"search-empty": "/docs/search?q=nothinghasthis", "missing": "/docs/there-is-none",
	} {
		s.each(func(lang, theme string) {
			s.do(chromedp.Navigate(s.url + strings.Replace(at, "/docs", map[string]string{"en": "/docs", "es": "/docs/es"}[lang], 1)))
			s.until("a button to sign in", `document.querySelector(".account")`)
			js[bool](s.page, fmt.Sprintf(`(document.documentElement.dataset.theme = %q, true)`, theme))
		}, func(suffix string) { s.shoot("docs-" + name + "-" + suffix) })
	}
}
