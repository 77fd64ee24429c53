package browser

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const ggal = "GGAL|BYMA|24hs"

// instrument is the hash of the page of an instrument.
func instrument(id string) string { return "#/i/" + strings.ReplaceAll(id, "|", "%7C") }

// pages returns the hashes of the pages by name.
func pages() map[string]string {
	return map[string]string{
		"market": "#/watch", "instrument": instrument(ggal), "history": "#/history", "accounts": "#/accounts",
		"connection": "#/health", "messages": "#/inspect", "simulator": "#/sim",
	}
}

// TestSignIn signs in with keys, and continues after the page is loaded again.
func TestSignIn(t *testing.T) {
	p := open(t, dev(t), "/", func(p *page) { p.allowed = []string{"401"} })
	p.do(chromedp.WaitVisible(`input[name=username]`, chromedp.ByQuery))
	p.fill(`input[name=username]`, "demo")
	p.fill(`input[name=password]`, "wrong\r")
	p.until("the password is refused", `document.querySelector("[role=alert].error")?.innerText === "Wrong user or password."`)
	p.fill(`input[name=password]`, "demo\r")
	p.live()
	p.do(chromedp.Reload())
	p.live()
	kept := js[string](p, `JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + document.cookie`)
	if strings.Contains(kept, "eyJ") || strings.Contains(kept, "token") {
		t.Errorf("the page keeps a token: %s", kept)
	}
	p.button("Sign out")
	p.do(chromedp.WaitVisible(`input[name=username]`, chromedp.ByQuery), chromedp.Reload(), chromedp.WaitVisible(`input[name=username]`, chromedp.ByQuery))
}

// TestSignOutFails signs out while the gateway cannot be reached. The page says that the login goes
// on, and the next try ends it.
func TestSignOutFails(t *testing.T) {
	p := open(t, dev(t), "/console/")
	p.signIn("demo")
	p.live()
	js[bool](p, `(globalThis.real = fetch, globalThis.fetch = () => Promise.reject(new TypeError("no network")), true)`)
	p.button("Sign out")
	p.until("the failure is shown", `document.querySelector(".who [role=alert]")?.innerText.startsWith("You are still signed in")`)
	js[bool](p, `(globalThis.fetch = globalThis.real, true)`)
	p.button("Sign out")
	p.do(chromedp.WaitVisible(`input[name=username]`, chromedp.ByQuery))
}

// TestIdle moves the clock of the page by 13 hours without input. The page logs out, and says why
// also after the gateway has answered.
func TestIdle(t *testing.T) {
	p := open(t, dev(t), "/console/", func(p *page) { p.allowed = []string{"401"} })
	p.signIn("demo")
	p.live()
	js[bool](p, `(globalThis.fetch = ((real) => async (...request) => {
		const answer = await real(...request);
		if (request[1]?.method === "DELETE") setTimeout(() => { globalThis.ended = true; }, 200);
		return answer;
	})(fetch), true)`)
	js[bool](p, `(Date.now = ((real) => () => real() + 13 * 3600_000)(Date.now), true)`)
	p.until("the gateway has ended the login", `globalThis.ended`)
	p.until("the page says why", `document.querySelector(".notice[role=alert]")?.innerText === "You were signed out because nobody used the page."`)
	p.do(chromedp.Reload(), chromedp.WaitVisible(`input[name=username]`, chromedp.ByQuery))
}

// TestDemo signs in by the button that a development gateway offers.
func TestDemo(t *testing.T) {
	p := open(t, dev(t), "/console/")
	p.do(chromedp.WaitVisible(`.linklike`, chromedp.ByQuery))
	p.button("Sign in as demo")
	p.live()
}

// TestWatchlist adds and removes instruments, and finds them again by the address.
func TestWatchlist(t *testing.T) {
	gateway := dev(t)
	p := open(t, gateway, "/console/")
	p.signIn("demo")
	p.until("a watchlist", `document.querySelectorAll(".quotes tbody tr").length >= 5`)
	p.until("prices", `document.querySelectorAll(".quotes td.bid:not(:empty)").length >= 5`)
	before := js[int](p, `document.querySelectorAll(".quotes tbody tr").length`)
	p.do(chromedp.KeyEvent("/"))
	p.until("the field has the focus", `document.activeElement.matches("[data-find]")`)
	p.fill(`[data-find]`, "fake")
	p.do(chromedp.WaitVisible(`[role=option][aria-selected=true]`, chromedp.ByQuery))
	p.until("the instrument is found", `document.querySelector("[role=option] b")?.innerText === "FAKE"`)
	p.do(chromedp.SendKeys(`[data-find]`, kb.Enter, chromedp.ByQuery))
	p.until("the instrument is added", fmt.Sprintf(`document.querySelectorAll(".quotes tbody tr").length === %d`, before+1))
	p.until("its quote", `document.querySelector('[data-id="FAKE|SIM|CI"] td.bid')?.innerText`)
	if address := js[string](p, "location.hash"); !strings.Contains(address, "FAKE") {
		t.Errorf("the address %s has no FAKE", address)
	}
	p.click(`[data-id="FAKE|SIM|CI"] .remove button`)
	p.until("the instrument is removed", `!document.querySelector('[data-id="FAKE|SIM|CI"]')`)
	p.picture("market")
	p.click(fmt.Sprintf(`[data-id=%q] a`, js[string](p, `document.querySelector(".quotes tbody tr").dataset.id`)))
	p.do(chromedp.WaitVisible(`.ladder`, chromedp.ByQuery))
}

// TestInstrument watches a ladder and trades move, and uses the controls of the page.
func TestInstrument(t *testing.T) {
	p := open(t, dev(t), "/console/"+instrument(ggal))
	p.signIn("demo")
	p.until("a verified book", `document.querySelector(".ladder table").dataset.valid === "true"`)
	n := js[string](p, `document.querySelector(".ladder table").dataset.n`)
	p.until("the ladder moves", fmt.Sprintf(`Number(document.querySelector(".ladder table").dataset.n) > %s + 3`, n))
	p.until("trades", `document.querySelectorAll(".tape tbody tr.trade").length >= 3`)
	p.until("candles", `document.querySelector(".chart canvas") && !document.querySelector(".chart > .empty")`)
	step := p.text(`[data-f=step]`)
	p.click(`[aria-label=Coarser]`)
	p.until("a coarser ladder", fmt.Sprintf(`document.querySelector("[data-f=step]").innerText !== %q && location.hash.includes("group=2")`, step))
	p.do(chromedp.Focus(`.ladder .body`, chromedp.ByQuery), chromedp.KeyEvent("-"))
	p.until("a finer ladder", fmt.Sprintf(`document.querySelector("[data-f=step]").innerText === %q`, step))
	middle := `document.querySelectorAll(".ladder tbody tr")[8].cells[2].innerText`
	was := js[string](p, middle)
	p.do(chromedp.KeyEvent(kb.PageUp))
	p.until("the ladder scrolls", fmt.Sprintf(`%s !== %q && document.querySelector(".centre").ariaPressed === "false"`, middle, was))
	p.do(chromedp.KeyEvent("c"))
	p.until("the ladder is centred", `document.querySelector(".centre").ariaPressed === "true"`)
	p.fill(`.tape input`, "100000000")
	p.until("no trade is so large", `document.querySelectorAll(".tape tbody tr.trade").length === 0 && location.hash.includes("min=100000000")`)
	p.fill(`.tape input`, "1")
	p.until("trades again", `document.querySelectorAll(".tape tbody tr.trade").length >= 3`)
	p.button("5m")
	p.until("another interval", `location.hash.includes("bar=5m")`)
}

// row is a price of a ladder or of a book.
type row struct{ Price, Bid, Ask string }

// TestLadderEqualsREST compares the ladder with the book of REST at a hundred moments: each price
// that the ladder shows has the same sizes.
func TestLadderEqualsREST(t *testing.T) {
	p := open(t, dev(t), "/console/"+instrument(ggal))
	p.signIn("demo")
	p.until("a verified book", `document.querySelector(".ladder table").dataset.valid === "true"`)
	// Each painted ladder is kept by its number.
	js[bool](p, `(() => {
		window.painted = new Map();
		const table = document.querySelector(".ladder table");
		const plain = (cell) => cell.textContent.replace(/[,\s]/g, "").replace(/\.0+$|(\.\d*?)0+$/, "$1");
		const keep = () => {
			if (table.dataset.valid === "true") window.painted.set(Number(table.dataset.n), [...table.tBodies[0].rows].map((r) => ({Price: plain(r.cells[2]), Bid: plain(r.cells[1]), Ask: plain(r.cells[3])})));
			requestAnimationFrame(keep);
		};
		keep();
		return true;
	})()`)
	token := js[string](p, `import("/console/app/session.js").then((m) => m.token())`)
	const moments = 100
	same, asked := 0, 0
	for deadline := time.Now().Add(4 * time.Minute); same < moments && time.Now().Before(deadline); asked++ {
		text := js[string](p, fmt.Sprintf(`fetch("/market/book?depth=0&instrument=" + encodeURIComponent(%q), {headers: {Authorization: "Bearer " + %q}}).then((r) => r.text())`, ggal, token))
		var answer struct {
			Data struct {
				N    int
				B, A [][]json.Number
			}
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Data.N == 0 {
			t.Fatalf("%v: %.200s", err, text)
		}
		time.Sleep(120 * time.Millisecond) // the limit of requests is ten a second
		rows := js[[]row](p, fmt.Sprintf(`window.painted.get(%d) ?? []`, answer.Data.N))
		if len(rows) == 0 {
			continue // the page did not paint this one
		}
		bids, asks := map[string]string{}, map[string]string{}
		for _, l := range answer.Data.B {
			bids[l[0].String()] = l[1].String()
		}
		for _, l := range answer.Data.A {
			asks[l[0].String()] = l[1].String()
		}
		shown := 0
		for _, r := range rows {
			if r.Bid != bids[r.Price] || r.Ask != asks[r.Price] {
				t.Errorf("book %d at %s: the ladder has %q and %q, REST %q and %q", answer.Data.N, r.Price, r.Bid, r.Ask, bids[r.Price], asks[r.Price])
			}
			if r.Bid+r.Ask != "" {
				shown++
			}
		}
		if shown < 3 {
			t.Errorf("book %d: the ladder shows %d levels", answer.Data.N, shown)
		}
		same++
	}
	if same < moments {
		t.Errorf("%d of %d moments were compared", same, moments)
	}
	t.Logf("figure: %d ladders equal the book of REST, of %d requests", same, asked)
}

// TestRecovery loses a trade and the connection, and sees the page recover both by clicks alone.
func TestRecovery(t *testing.T) {
	p := open(t, dev(t), "/console/"+instrument(ggal))
	p.signIn("demo")
	p.until("trades", `document.querySelectorAll(".tape tbody tr.trade").length >= 1`)
	p.do(chromedp.Click(`//nav//a[.="Simulator"]`, chromedp.BySearch), chromedp.WaitVisible(`[data-fault=gap]`, chromedp.ByQuery))
	p.do(chromedp.WaitEnabled(`[data-fault=gap]`, chromedp.ByQuery), chromedp.Click(`[data-fault=gap]`, chromedp.ByQuery))
	p.until("the gap is counted", `document.querySelector(".gaps").innerText.startsWith("1")`)
	p.until("the trade is recovered", `document.querySelector(".tape tr.recovered")`)
	p.do(chromedp.Click(`[data-fault=disconnect]`, chromedp.ByQuery))
	p.until("the connection is lost", `document.querySelector(".tape tr.break")`)
	p.live()
	p.visit(instrument(ggal))
	p.until("the book is valid again", `document.querySelector(".ladder table").dataset.valid === "true"`)
	p.do(chromedp.Click(`.pulse .state`, chromedp.ByQuery))
	p.until("the loss is listed", `document.querySelector(".incidents tr.waiting")`)
	p.until("a plot", `document.querySelectorAll(".uplot canvas").length >= 5`)
	p.picture("connection")
}

// TestTradesOfHistory opens an instrument while its subscription arrives late at the gateway. The
// list of trades begins with those of history, and has those between history and the stream.
func TestTradesOfHistory(t *testing.T) {
	p := open(t, dev(t, "--speed", "5"), "/console/"+instrument(ggal))
	p.do(chromedp.WaitVisible(`input[name=username]`, chromedp.ByQuery))
	js[bool](p, `(() => {
		const send = WebSocket.prototype.send;
		WebSocket.prototype.send = function (text) {
			if (String(text).includes('"trades"')) setTimeout(() => send.call(this, text), 3000);
			else send.call(this, text);
		};
		return true;
	})()`)
	p.signIn("demo")
	numbers := `[...document.querySelectorAll(".tape tbody tr .n")].filter((e) => e.checkVisibility() && e.innerText).map((e) => Number(e.innerText.replace(/\D/g, "")))`
	p.until("trades of history", numbers+`.length >= 3`)
	before := js[int](p, numbers+`[0]`)
	p.until("trades of the stream", fmt.Sprintf(`%s[0] > %d + 5`, numbers, before))
	p.until("no trade is missing", fmt.Sprintf(`((list) => list.indexOf(%d) > 0 && list.every((n, i) => i === 0 || list[i - 1] === n + 1))(%s)`, before, numbers))
}

// TestSimulator changes the phase of an instrument and the speed of the market with buttons, and
// reads what the page says about them.
func TestSimulator(t *testing.T) {
	p := open(t, dev(t), "/console/#/sim")
	p.signIn("demo")
	enabled := func(fault string, is bool) string {
		return fmt.Sprintf(`document.querySelector("[data-fault=%s]")?.disabled === %t`, fault, !is)
	}
	p.until("the phase is known", enabled("halt", true)+" && "+enabled("open", false))
	p.click(`[data-fault=halt]`)
	p.until("the answer", `document.querySelector(".story li.asked:not(.bad)")?.innerText.includes("Halt")`)
	p.visit(instrument("FAKE|SIM|CI"))
	p.until("the halt", `document.querySelector(".phase")?.innerText.startsWith("Halted")`)
	p.until("the end of the halt", `document.querySelector(".phase").hidden`)

	p.visit("#/sim")
	phase := func(want string) {
		t.Helper()
		p.until("the phase is "+want, fmt.Sprintf(`document.querySelector(".subject").innerText === "FAKE|SIM|CI: %s"`, want))
	}
	phase("open")
	p.click(`[data-fault=auction]`)
	phase("auction")
	p.until("only trading can begin", enabled("open", true)+" && "+enabled("halt", false))
	p.click(`[data-fault=open]`)
	phase("open")
	p.click(`[data-fault=close_market]`)
	phase("closed")
	p.until("the market is closed", `document.querySelector(".market.closed")?.innerText.startsWith("SIM")`)
	p.click(`[data-fault=open]`)
	phase("open")
	p.until("the market is open", `document.querySelector(".market.open")`)

	pressed := `document.querySelector("[data-speed][aria-pressed=true]")?.innerText`
	p.until("the usual speed", pressed+` === "1×"`)
	p.click(`[data-speed="5"]`)
	p.until("the speed", pressed+` === "5×" && document.querySelector(".speed .what").innerText.includes("5 times")`)
	p.do(chromedp.Reload())
	p.live()
	p.until("the speed of the gateway", pressed+` === "5×"`)
	p.picture("simulator-speed")
}

// TestSimulatorOfLimitedUser shows that speed, phase and faults of the market need a scope.
func TestSimulatorOfLimitedUser(t *testing.T) {
	p := open(t, dev(t), "/console/#/sim", func(p *page) { p.allowed = []string{"403"} })
	p.signIn("basic")
	p.until("why", `document.querySelector(".sim .notice")?.innerText.includes("need the scope admin")`)
	if n := js[int](p, `[...document.querySelectorAll("[data-speed], .phases button, [data-fault=jump]")].filter((b) => !b.disabled).length`); n > 0 {
		t.Errorf("%d buttons work", n)
	}
}

// TestFirstMinutes is the way of a new user, by clicks alone: from the sign-in to a gap that the page
// causes, explains and repairs. Each step is offered by the page before.
func TestFirstMinutes(t *testing.T) {
	p := open(t, dev(t), "/")
	p.do(chromedp.WaitVisible(`.linklike`, chromedp.ByQuery))
	p.button("Sign in as demo")
	p.live()
	p.until("prices", `document.querySelectorAll(".quotes td.bid:not(:empty)").length >= 5`)
	p.click(`.hint-dev a`)
	p.until("what to press first", `document.querySelector(".story .empty")?.innerText.includes(document.querySelector("[data-fault=gap]").innerText)`)
	p.do(chromedp.WaitEnabled(`[data-fault=gap]`, chromedp.ByQuery))
	p.button("Leave out a trade")
	sentence := func(kind, part string) {
		t.Helper()
		p.until(part, fmt.Sprintf(`[...document.querySelectorAll(".story li.%s")].some((e) => e.innerText.includes(%q))`, kind, part))
	}
	sentence("asked", "The next trade does not arrive")
	sentence("recovered", "of FAKE|SIM|CI did not arrive. The page asked for it and has it now. Nothing is lost.")
	n := js[string](p, `document.querySelector(".story li.recovered").innerText.match(/Trade (\d+) of/)[1]`)
	p.until("the trade is in the list, and the list says that it was missing", fmt.Sprintf(`document.querySelector(".tape tr.recovered")?.innerText.includes("(%s)") &&
		[...document.querySelectorAll(".tape tr.replayed .n")].some((e) => e.innerText.replace(/\D/g, "") === %q)`, n, n))
	p.until("the figures", `document.querySelector(".facts-line").innerText.match(/recovered: 1 · lost: 0/)`)
	p.picture("first-minutes")

	p.click(`.pulse .gaps`)
	p.until("the same sentence", fmt.Sprintf(`document.querySelector(".incidents tr.recovered")?.innerText.includes("Trade %s of FAKE|SIM|CI did not arrive.")`, n))
	p.do(chromedp.Click(`//nav//a[.="Simulator"]`, chromedp.BySearch), chromedp.WaitVisible(`[data-fault=disconnect]`, chromedp.ByQuery))
	p.button("Cut the connection")
	sentence("waiting", "The connection was lost.")
	sentence("back", "The connection is back.")
	p.live()
	p.button("Wrong checksum")
	sentence("book", "The checksum of the book of FAKE|SIM|CI was wrong.")
	sentence("book_again", "The new book of FAKE|SIM|CI has arrived and is verified.")
	p.button("Correct a trade")
	p.until("the correction", `document.querySelector(".tape tr.correction")`)
	p.click(`.controls button[lang=es]`)
	sentence("recovered", "no llegó. La página la pidió y ya la tiene. No se perdió nada.")
	sentence("back", "Volvió la conexión.")
	if lost := p.text(`.facts-line`); !strings.Contains(lost, "perdidas: 0") {
		t.Errorf("at the end: %s", lost)
	}
}

// TestMessages inspects a message, finds no token, and sends one.
func TestMessages(t *testing.T) {
	p := open(t, dev(t), "/console/"+instrument(ggal))
	p.signIn("demo")
	p.until("a trade on the stream", `import("/console/app/wire.js").then((m) => m.frames().some((f) => f.text.startsWith('{"type":"T"')))`)
	p.do(chromedp.Click(`//nav//a[.="Messages"]`, chromedp.BySearch), chromedp.WaitVisible(`.log tbody tr`, chromedp.ByQuery))
	p.fill(`.inspect input[type=search]`, "auth_token")
	p.until("the login", `document.querySelector(".log tr.out .raw")?.innerText.includes('"token":"••••')`)
	if all := js[string](p, `import("/console/app/wire.js").then((m) => m.frames().map((f) => f.text).join(""))`); strings.Contains(all, "eyJ") {
		t.Error("a token is kept")
	}
	p.visit("#/inspect?type=T")
	p.do(chromedp.WaitVisible(`.log tr.in .raw`, chromedp.ByQuery))
	p.button("Pause")
	p.click(`.log tr.in .raw`)
	p.until("what the members mean", `[...document.querySelectorAll(".detail dt")].some((e) => e.innerText === "P") && document.querySelector(".detail dd span")`)
	p.picture("messages")
	p.visit("#/inspect?text=subscriptions")
	p.button("Pause")
	p.button("Send")
	p.until("the answer on the second connection", `document.querySelector(".log tr.in.c2 .raw")?.innerText.startsWith('{"type":"Subscription"')`)
}

// TestExport saves the rows of an instrument and a closed day as files.
func TestExport(t *testing.T) {
	gateway := dev(t, "--clock", "virtual", "--speed", "1200", "--start", "2026-11-18", "--days", "1", "--instruments", "12")
	p := open(t, gateway, "/console/#/history", func(p *page) { p.allowed = []string{"404"} })
	folder := t.TempDir()
	c := chromedp.FromContext(p.ctx)
	allow := cdpbrowser.SetDownloadBehavior(cdpbrowser.SetDownloadBehaviorBehaviorAllow).WithBrowserContextID(c.BrowserContextID).WithDownloadPath(folder)
	if err := allow.Do(cdp.WithExecutor(p.ctx, c.Browser)); err != nil {
		t.Fatal(err)
	}
	p.signIn("demo")
	const rowsShown = `document.querySelectorAll(".history tbody td").length > 20`
	for deadline := time.Now().Add(patience); !js[bool](p, rowsShown) && time.Now().Before(deadline); time.Sleep(time.Second) {
		p.do(chromedp.Reload()) // the market of the gateway has only begun
		p.until("an answer", `document.querySelector(".history tbody, .history .empty")`)
	}
	p.until("rows", rowsShown)
	p.button("CSV")
	rows := download(t, folder, "-trades.csv")
	if lines := strings.Count(rows, "\n"); lines < 10 || !strings.Contains(rows, "BYMA") {
		t.Errorf("%d lines: %.200s", lines, rows)
	}
	p.do(chromedp.SetValue(`.day input[type=date]`, "2026-11-18", chromedp.ByQuery))
	for deadline := time.Now().Add(3 * patience); ; time.Sleep(2 * time.Second) {
		p.button("Download")
		p.until("an answer", `/Saved|not closed/.test(document.querySelector(".day [role=status]").innerText)`)
		if strings.HasPrefix(p.text(`.day [role=status]`), "Saved") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the day is not closed")
		}
	}
	if day := download(t, folder, "trades-2026-11-18.csv"); strings.Count(day, "\n") < 100 {
		t.Errorf("the day has %d lines", strings.Count(day, "\n"))
	}
}

// TestHistoryIsIncomplete removes the first day of a journal, and the segment in the middle of
// another one. The page says what it lacks, in both orders, and says nothing of a time from which
// all is there. A page of another origin reads the same from the header.
func TestHistoryIsIncomplete(t *testing.T) {
	data, copied := t.TempDir(), filepath.Join(t.TempDir(), "data")
	_, stop := devUntil(t, "--data", data, "--clock", "virtual", "--speed", "3000", "--start", "2026-11-18", "--instruments", "12")
	for deadline := time.Now().Add(3 * patience); ; time.Sleep(100 * time.Millisecond) {
		if closed, _ := filepath.Glob(filepath.Join(data, "journal", "2026-11-19", "day.idx")); len(closed) > 0 {
			break // the first day too, and the third one has begun
		}
		if time.Now().After(deadline) {
			t.Fatal("the second day is not closed")
		}
	}
	stop()
	if out, err := exec.Command("cp", "-a", data, copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.RemoveAll(filepath.Join(data, "journal", "2026-11-18")); err != nil {
		t.Fatal(err)
	}
	middle, _ := filepath.Glob(filepath.Join(copied, "journal", "2026-11-19", "*.seg*"))
	if len(middle) != 1 || os.Remove(middle[0]) != nil {
		t.Fatalf("segments of the second day: %q", middle)
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
	}))
	defer elsewhere.Close()
	for _, want := range []struct{ folder, start, text, header string }{
		{data, "2026-11-18", `Missing: N 1 to [\d,]+ \(before 2026-11-19 `, `^200 \[\{"from":1,"to":\d+,"end":"2026-11-19T[^}]*\}\]$`},
		{copied, "2026-11-19", `Missing: N [\d,]+ to [\d,]+ \(before 2026-11-2`, `^200 \[\{"from":\d\d+,"to":\d+,"start":"2026-11-18T[^}]*"end":"2026-11-2[^}]*\}\]$`},
	} {
		gateway := dev(t, "--data", want.folder, "--clock", "virtual", "--instruments", "12", "--listen", freeAddress(t), "--origin", elsewhere.URL)
		historyLacks(t, gateway, want.start, want.text)
		other := open(t, elsewhere.URL, "/", func(p *page) { p.own = append(p.own, host(t, gateway)) })
		header := js[string](other, fmt.Sprintf(`(async () => {
			const login = await fetch(%[1]q + "/auth/token", {method: "POST", headers: {"Content-Type": "application/json"},
				body: JSON.stringify({grant_type: "password", username: "demo", password: "demo"})});
			const {data: {access_token}} = await login.json();
			const rows = await fetch(%[1]q + "/market/trades?order=asc&instrument=GGAL%%7CBYMA%%7C24hs&start=%[2]sT00:00:00Z",
				{headers: {Authorization: "Bearer " + access_token}});
			return rows.status + " " + rows.headers.get("Rueda-Lost");
		})()`, gateway, want.start))
		if !regexp.MustCompile(want.header).MatchString(header) {
			t.Errorf("another origin reads %s", header)
		}
	}
}

// freeAddress returns an address that nobody listens on. The origin of the console has its port.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// historyLacks checks what the page of history says of a time whose first rows are missing.
func historyLacks(t *testing.T, gateway, start, want string) {
	t.Helper()
	const lost = `(document.querySelector(".history .lost")?.innerText ?? "no page")`
	p := open(t, gateway, "/console/")
	p.signIn("demo")
	show := func(query string) {
		t.Helper()
		p.do(chromedp.Evaluate(`location.hash = "#/history/GGAL%7CBYMA%7C24hs"`+query, nil))
	}
	for _, order := range []string{"", "&order=asc"} {
		if order == "" && start != "2026-11-18" {
			continue // the newest rows of that time are not next to the missing ones
		}
		show(`+ "?start=` + start + `T00:00:00Z` + order + `"`)
		p.until("what is lost", "/"+want+"/.test("+lost+")")
		p.until("rows", `document.querySelector(".history tbody td")`)
	}
	if start != "2026-11-18" {
		return // a copy beside the journal begins a new epoch, and the end of the one before may be missing
	}
	show("")
	p.until("nothing is lost", lost+` === ""`)
	p.until("rows without a start", `document.querySelector(".history tbody td")`)
}

// download waits for a file and returns its content.
func download(t *testing.T, folder, name string) string {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		files, _ := filepath.Glob(filepath.Join(folder, "*"+name))
		if len(files) == 0 {
			continue
		}
		if text, err := os.ReadFile(files[0]); err == nil && len(text) > 0 {
			return string(text)
		}
	}
	t.Fatalf("no file %s", name)
	return ""
}

// TestAccounts shows the accounts of the user and the session of the page.
func TestAccounts(t *testing.T) {
	p := open(t, dev(t), "/console/#/accounts")
	p.signIn("demo")
	p.until("two accounts", `document.querySelectorAll(".accounts table:first-of-type tbody tr").length >= 2`)
	p.until("this page", `document.querySelector(".accounts").innerText.includes("this page")`)
	p.picture("accounts")
}

// TestEndSession ends another session of the user, for which the page asks for the password.
func TestEndSession(t *testing.T) {
	gateway := dev(t)
	answer, err := http.Post(gateway+"/auth/token", "application/json", strings.NewReader(`{"grant_type":"password","username":"demo","password":"demo"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var other struct {
		Data struct {
			Token string `json:"access_token"`
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&other); err != nil || other.Data.Token == "" {
		t.Fatalf("log in: %d, %v", answer.StatusCode, err)
	}
	p := open(t, gateway, "/console/#/accounts", func(p *page) { p.allowed = []string{"401"} })
	p.signIn("demo")
	buttons := `document.querySelectorAll(".accounts table button").length`
	p.until("two sessions", buttons+` === 1`)
	p.button("End")
	p.fill(`.ending input[name=password]`, "wrong\r")
	p.until("the password is refused", `document.querySelector(".ending .error").innerText !== "" && `+buttons+` === 1`)
	p.fill(`.ending input[name=password]`, "demo\r")
	p.until("one session", buttons+` === 0 && !document.querySelector(".ending")`)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, gateway+"/auth/sessions", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+other.Data.Token)
	if answer, err = http.DefaultClient.Do(request); err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("the other session still works: %d", answer.StatusCode)
	}
}

// TestLimitedUser shows a user without rights what is missing.
func TestLimitedUser(t *testing.T) {
	p := open(t, dev(t), "/console/"+instrument(ggal), func(p *page) { p.allowed = []string{"403"} })
	p.signIn("basic")
	p.until("why there is no book", `document.querySelector(".veil")?.innerText.startsWith("No right")`)
	p.until("why there are no trades", `document.querySelector(".tape .empty")?.innerText.startsWith("No right")`)
	p.picture("limited")
}

// TestLanguages shows every page in Spanish and both themes, without a text that does not fit.
func TestLanguages(t *testing.T) {
	p := open(t, dev(t), "/console/#/watch")
	p.signIn("demo")
	for _, lang := range []string{"en", "es"} {
		for _, theme := range []string{"light", "dark"} {
			p.until("the language", fmt.Sprintf(`document.documentElement.lang === %q || (document.querySelector(".controls button").click(), false)`, lang))
			p.until("the theme", fmt.Sprintf(`document.documentElement.dataset.theme === %q || (document.querySelectorAll(".controls button")[1].click(), false)`, theme))
			for name, hash := range pages() {
				p.visit(hash)
				p.do(chromedp.WaitVisible(`h1, .watch`, chromedp.ByQuery), chromedp.Sleep(700*time.Millisecond))
				p.picture(fmt.Sprintf("%s-%s-%s", name, lang, theme))
				if width := js[int](p, `document.documentElement.scrollWidth - innerWidth`); width > 0 {
					t.Errorf("%s in %s is %d px too wide", name, lang, width)
				}
			}
		}
	}
}

// TestPhone uses the pages at a width of 360 px.
func TestPhone(t *testing.T) {
	p := open(t, dev(t), "/console/#/watch")
	p.do(chromedp.EmulateViewport(360, 780, chromedp.EmulateScale(2)))
	p.signIn("demo")
	for name, hash := range pages() {
		p.visit(hash)
		p.do(chromedp.WaitVisible(`h1`, chromedp.ByQuery), chromedp.Sleep(700*time.Millisecond))
		if width := js[int](p, `document.documentElement.scrollWidth - innerWidth`); width > 0 {
			t.Errorf("%s is %d px too wide", name, width)
		}
		p.picture("phone-" + name)
	}
}

// TestHiddenTab checks that a page that nobody sees receives no quotes and books, and has them again
// when it is shown.
func TestHiddenTab(t *testing.T) {
	p := open(t, dev(t), "/console/"+instrument(ggal))
	p.signIn("demo")
	p.until("a verified book", `document.querySelector(".ladder table").dataset.valid === "true"`)
	state := func(to string) {
		js[bool](p, fmt.Sprintf(`(Object.defineProperty(document, "visibilityState", {value: %q, configurable: true}), document.dispatchEvent(new Event("visibilitychange")), true)`, to))
	}
	set := `import("/console/app/session.js").then((m) => Boolean(m.gateway().subscriptions().books))`
	state("hidden")
	p.until("no books", `true`)
	for deadline := time.Now().Add(patience); js[bool](p, set); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a hidden page still wants books")
		}
	}
	state("visible")
	p.until("a verified book", `document.querySelector(".ladder table").dataset.valid === "true"`)
	if !js[bool](p, set) {
		t.Error("no books are wanted")
	}
}
