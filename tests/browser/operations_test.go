package browser

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
)

// hostileName is the name of a user, of a session and of a client. It must be shown as text.
const hostileName = `<img src=x onerror="window.stolen=1">`

const userPassword = "a password of these tests"

// operated is a gateway with a listener for administrators, and a token for each role.
type operated struct {
	t              *testing.T
	clients, admin string // URLs
	stop           func() // ends the gateway before the test ends
}

func operatorToken(role string) string { return "the-token-of-the-operator-with-the-role-" + role }

// serve runs rueda serve with the simulated market and further instruments until the test ends.
func serve(t *testing.T, instruments ...string) *operated {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "gateway")
	if out, err := exec.Command(shared.program, "serve", "--init", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var lines strings.Builder
	for _, role := range []string{"read", "operate", "identity"} {
		fmt.Fprintf(&lines, "of-%s %x %s\n", role, sha256.Sum256([]byte(operatorToken(role))), role)
	}
	config := filepath.Join(folder, "rueda.toml")
	text, err := os.ReadFile(config)
	if err == nil {
		text = regexp.MustCompile(`(?m)^listen = "127\.0\.0\.1:\d+"`).ReplaceAll(text, []byte(`listen = "127.0.0.1:0"`))
		text = bytes.Replace(text, []byte("# account_free = 5\n"), []byte("account_free = 50\n"), 1) // wrong codes in a row
		err = os.WriteFile(config, text, 0o600)
	}
	if err == nil && len(instruments) > 0 {
		err = os.WriteFile(filepath.Join(folder, "instruments.toml"), []byte(strings.Join(instruments, "\n")), 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "admin.token"), []byte(lines.String()), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(shared.program, "serve", "--config", config)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	t.Cleanup(stop)
	log := bufio.NewScanner(out)
	for log.Scan() {
		if m := regexp.MustCompile(`msg=ready address=(\S+) .*admin=(\S+)`).FindStringSubmatch(log.Text()); m != nil {
			go func() {
				for log.Scan() {
				}
			}()
			return &operated{t, "http://" + m[1], "http://" + m[2], stop}
		}
	}
	t.Fatal("rueda serve did not start")
	return nil
}

// request sends a request with a token and returns the data of the answer.
func (g *operated) request(token, method, address, body string) map[string]any {
	g.t.Helper()
	r, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", hostileName)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	var envelope struct{ Data map[string]any }
	if err != nil || answer.StatusCode != http.StatusOK || json.Unmarshal(text, &envelope) != nil {
		g.t.Fatalf("%s %s: %d %s, %v", method, address, answer.StatusCode, text, err)
	}
	return envelope.Data
}

// addUser adds a user who may see everything, and returns the id.
func (g *operated) addUser(name string) string {
	g.t.Helper()
	return g.addUserWith(name, false)
}

// addUserWith is as addUser. With mustChange the password is good for one use.
func (g *operated) addUserWith(name string, mustChange bool) string {
	g.t.Helper()
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	_ = e.Encode(map[string]any{"username": name, "password": userPassword, "must_change_password": mustChange, "rights": map[string]any{
		"scopes": []string{"marketdata:read", "marketdata:depth", "marketdata:history", "marketdata:wildcard", "accounts:read"}, "limits": map[string]any{}, "networks": []string{},
		"entitlements": []any{map[string]any{"market": "*", "trades": true, "quotes": true, "depth": -1}},
	}})
	return g.request(operatorToken("identity"), "POST", g.admin+"/admin/users", body.String())["id"].(string)
}

// login returns an access token of a user.
func (g *operated) login(name string) string {
	g.t.Helper()
	body, _ := json.Marshal(map[string]string{"grant_type": "password", "username": name, "password": userPassword})
	return g.request("", "POST", g.clients+"/auth/token", string(body))["access_token"].(string)
}

// connect opens a tab with a WebSocket of a user. The tab keeps the close code in window.code.
func (g *operated) connect(token string) *page {
	g.t.Helper()
	p := open(g.t, g.clients, "/docs")
	hello, _ := json.Marshal(map[string]any{"action": "auth_token", "token": token, "session": "bot"})
	js[bool](p, fmt.Sprintf(`new Promise((resolve) => {
		window.ws = new WebSocket(location.origin.replace("http", "ws") + "/stream");
		ws.onopen = () => { ws.send(%q); ws.send('{"action":"subscribe","trades":["*|*|*"],"quotes":["*|*|*"]}'); };
		ws.onmessage = () => resolve(true);
		ws.onclose = (e) => { window.code = e.code; resolve(true); };
	})`, string(hello)))
	return p
}

// operatorPage opens the operations page and signs in with a token.
func (g *operated) operatorPage(role string, options ...func(*page)) *page {
	g.t.Helper()
	p := open(g.t, g.admin, "/", options...)
	p.do(chromedp.WaitVisible(`#token`, chromedp.ByQuery))
	p.fill("#token", operatorToken(role)+"\r")
	p.until("the operator is signed in", `document.querySelector("nav.nav")`)
	return p
}

// allowing lets a page report problems that contain a text.
func allowing(texts ...string) func(*page) {
	return func(p *page) { p.allowed = append(p.allowed, texts...) }
}

// answer presses a button of the open dialog.
func (p *page) answer(button string) {
	p.t.Helper()
	p.do(chromedp.Click(fmt.Sprintf(`//dialog//button[normalize-space()=%q]`, button), chromedp.BySearch, chromedp.NodeVisible))
}

// tile returns the value of a tile of the overview.
func tile(name string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(".tile")].find((t) => t.querySelector("dt").innerText === %q)?.querySelector("dd").innerText ?? ""`, name)
}

// TestOperationsOverview signs in, and watches figures and plots that move.
func TestOperationsOverview(t *testing.T) {
	g := serve(t)
	g.addUser("maria")
	g.connect(g.login("maria"))

	p := open(t, g.admin, "/", allowing("401"))
	p.do(chromedp.WaitVisible(`#token`, chromedp.ByQuery))
	p.picture("operations-signin")
	p.fill("#token", "not the token of anybody here\r")
	p.until("a wrong token is refused", `document.querySelector(".failed")?.innerText.includes("No operator has this token")`)
	p.fill("#token", operatorToken("read")+"\r")
	p.until("figures arrive", `document.querySelectorAll(".tile").length === 8`)
	p.until("there is one connection", tile("Live connections")+`.startsWith("1")`)
	p.until("messages are delivered", `[...document.querySelectorAll(".plot")][0]?.innerText.match(/delivered\s*[1-9][\d,.]*\/s/)`)
	p.until("latencies are measured", tile("Delivery, 99 of 100")+`.match(/^[\d.]+ ms/)`)
	if n := js[int](p, `document.querySelectorAll(".plot canvas").length`); n != 6 {
		t.Errorf("%d plots, want 6", n)
	}
	p.until("a plot is drawn", `(() => { const c = document.querySelector(".plot canvas"); const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data; return d.some((v) => v > 0); })()`)
	polls := `performance.getEntriesByType("resource").filter((e) => e.name.endsWith("/metrics")).length`
	first := js[int](p, polls)
	p.until("the page asks again", fmt.Sprintf("%s >= %d", polls, first+3))
	p.picture("operations-overview")
	p.click(`button[aria-label="Dark or light"]`)
	p.picture("operations-overview-dark")
	p.click(`button[aria-label="Language: Spanish"]`)
	p.until("the page is Spanish", `document.querySelector("nav.nav").innerText.includes("Conexiones") && document.documentElement.lang === "es"`)
	p.click(`button[aria-label="Idioma: inglés"]`)

	for _, view := range []string{"feeds", "limits", "keys"} {
		p.visit("#/" + view)
		p.until(view+" is shown", fmt.Sprintf(`document.querySelector('nav a[aria-current]')?.hash === "#/%s" && document.querySelector("main section")`, view))
		p.until(view+" is loaded", `!document.querySelector("main").innerText.includes("Loading")`)
		p.picture("operations-" + view)
	}
	p.visit("#/feeds")
	p.until("the feed is up", `document.querySelector("main table").innerText.match(/simulated\s+up/)`)

	// What the role does not allow is not offered.
	p.visit("#/connections")
	p.until("the connection is listed", `document.querySelector("main tbody")?.innerText.includes("maria")`)
	if n := js[int](p, `document.querySelectorAll("main button.danger").length`); n != 0 {
		t.Errorf("the role read is offered %d dangerous buttons", n)
	}
	for view, role := range map[string]string{"users": "identity", "audit": "operate"} {
		p.visit("#/" + view)
		p.until(view+" needs a role", fmt.Sprintf(`document.querySelector("main .empty")?.innerText.includes("needs? the role %s".replace("s?", "")) || document.querySelector("main .empty")?.innerText.includes("the role %s")`, role, role))
	}

	// The sign-in is that of the tab.
	p.do(chromedp.Reload())
	p.until("the sign-in survives a reload", `document.querySelector("nav.nav")`)
	if kept := js[string](p, `Object.keys(localStorage).join() + document.cookie`); strings.Contains(kept, "operator") {
		t.Errorf("outside of the tab there is %q", kept)
	}
	p.button("Sign out")
	p.until("nobody is signed in", `document.querySelector("#token")`)
	if kept := js[int](p, `sessionStorage.length`); kept != 0 {
		t.Errorf("%d values stay in the tab", kept)
	}
}

// TestOperationsClose closes a connection from the page, and finds it in the audit log.
func TestOperationsClose(t *testing.T) {
	g := serve(t)
	g.addUser("maria")
	client := g.connect(g.login("maria"))
	p := g.operatorPage("operate")
	p.visit("#/connections")
	p.until("the connection is listed", `document.querySelector("main tbody")?.innerText.includes("maria")`)
	p.picture("operations-connections")
	p.click(`main tbody button.danger`)
	p.until("the page asks", `document.querySelector("dialog[open]")`)
	p.picture("operations-close")
	p.answer("Cancel")
	p.until("nothing is asked", `!document.querySelector("dialog[open]")`)
	if js[bool](client, `Boolean(window.code)`) {
		t.Fatal("the connection closed without an answer")
	}
	p.click(`main tbody button.danger`)
	p.answer("Close connection")
	p.until("the page says so", `document.querySelector(".said").innerText.includes("The connection of maria is closed")`)
	client.until("the client is closed", `window.code === 4503`)
	p.until("the list is empty", `!document.querySelector("main tbody").innerText.includes("maria")`)
	p.visit("#/audit")
	p.until("the audit log has it", `document.querySelector("main tbody")?.innerText.match(/connection_closed\s+administrator \(of-operate\)/)`)
	p.picture("operations-audit")
}

// TestOperationsLogins ends one login of a user. The others stay.
func TestOperationsLogins(t *testing.T) {
	g := serve(t)
	id := g.addUser("maria")
	kept, ended := g.login("maria"), g.login("maria")
	client := g.connect(ended)
	p := g.operatorPage("operate")
	p.visit("#/logins?user=" + id)
	p.until("both logins are listed", `document.querySelectorAll("main tbody tr").length === 2`)
	p.picture("operations-logins")
	p.do(chromedp.Click(`//main//tbody/tr[td[normalize-space()="1"]]//button`, chromedp.BySearch, chromedp.NodeVisible))
	p.answer("End login")
	p.until("the page says so", `document.querySelector(".said").innerText.includes("The login has ended")`)
	client.until("its connection is closed", `window.code === 4401 || window.code > 0`)
	p.until("the other one stays", `document.querySelectorAll("main tbody tr").length === 1`)
	g.request(kept, "GET", g.clients+"/broker/accounts", "")
}

// TestOperationsUsers changes the rights of a user, and disables them.
func TestOperationsUsers(t *testing.T) {
	g := serve(t)
	id := g.addUser("maria")
	p := g.operatorPage("identity")
	p.visit("#/users")
	p.until("the user is listed", `document.querySelector("main tbody")?.innerText.includes("maria")`)
	p.picture("operations-users")
	p.do(chromedp.Click(`//main//tbody//a[normalize-space()="maria"]`, chromedp.BySearch, chromedp.NodeVisible))
	p.until("the user is shown", `document.querySelector("main textarea")?.value.includes('"marketdata:read"')`)
	p.picture("operations-user")
	js[bool](p, `(() => {
		const area = document.querySelector("main textarea");
		area.value = area.value.replace('"limits": {}', '"limits": {"connections": 3}');
		area.dispatchEvent(new Event("input", { bubbles: true }));
		return true;
	})()`)
	p.button("Store rights")
	p.until("the page says so", `document.querySelector(".said").innerText.includes("The rights are stored")`)
	user := g.request(operatorToken("identity"), "GET", g.admin+"/admin/users/"+id, "")
	if limits := fmt.Sprint(user["rights"].(map[string]any)["limits"]); limits != "map[connections:3]" {
		t.Errorf("limits %s", limits)
	}
	p.button("Disable")
	p.answer("Disable")
	p.until("the user is disabled", `document.querySelector(".facts").innerText.includes("disabled")`)
	if user := g.request(operatorToken("identity"), "GET", g.admin+"/admin/users/"+id, ""); user["status"] != "disabled" {
		t.Errorf("status %s", user["status"])
	}
}

// TestStoredScripts gives a user, a session and a client names that are HTML. The page shows them as
// text in each view, and runs nothing.
func TestStoredScripts(t *testing.T) {
	g := serve(t)
	id := g.addUser(hostileName)
	g.connect(g.login(hostileName))
	p := g.operatorPage("identity")
	for _, hash := range []string{"#/connections", "#/connections?user=" + id, "#/logins?user=" + id, "#/users", "#/users?id=" + id, "#/audit"} {
		p.visit(hash)
		p.until(hash+" shows the name as text", fmt.Sprintf(`document.querySelector("main").innerText.includes(%q)`, hostileName[:12]))
		if js[bool](p, `Boolean(window.stolen) || Boolean(document.querySelector("main img"))`) {
			t.Errorf("%s: the name is HTML", hash)
		}
	}
	p.visit("#/connections?user=" + `%3Cimg%20src%3Dx%20onerror%3D%22window.stolen%3D1%22%3E`)
	p.until("a hash is text too", `document.querySelector("main input[name=user]").value.startsWith("<img")`)
	p.click(`main tbody button.danger`)
	p.until("the dialog shows it as text", fmt.Sprintf(`document.querySelector("dialog[open]")?.innerText.includes(%q)`, hostileName[:12]))
	if js[bool](p, `Boolean(window.stolen) || Boolean(document.querySelector("dialog img"))`) {
		t.Error("the dialog shows HTML")
	}
}

// TestStoredScriptsInConsole gives a user, an account and an instrument names that are HTML. The
// console shows them as text in each view, and runs nothing.
func TestStoredScriptsInConsole(t *testing.T) {
	g := serve(t, fmt.Sprintf("[[instrument]]\nid = \"EVIL|BYMA|24hs\"\nname = %q\nkind = \"equity\"\ncurrency = \"ARS\"\nsettlement_days = 1\n", hostileName))
	id := g.addUser(hostileName)
	account, _ := json.Marshal(map[string]string{"number": "100001", "name": hostileName})
	g.request(operatorToken("identity"), "POST", g.admin+"/admin/users/"+id+"/accounts", string(account))
	p := open(t, g.clients, "/console/#/watch")
	p.do(chromedp.WaitVisible(`input[name=username]`, chromedp.ByQuery))
	p.fill(`input[name=username]`, hostileName)
	p.fill(`input[name=password]`, userPassword+"\r")
	p.live()
	harmless := func(where string) {
		t.Helper()
		if js[bool](p, `Boolean(window.stolen) || Boolean(document.querySelector("img"))`) {
			t.Errorf("%s: a name is HTML", where)
		}
	}
	for where, hash := range map[string]string{"accounts": "#/accounts", "instrument": "#/i/EVIL%7CBYMA%7C24hs"} {
		p.visit(hash)
		p.until(where+" shows the name as text", fmt.Sprintf(`document.body.innerText.includes(%q)`, hostileName[:12]))
		p.picture("hostile-" + where)
		harmless(where)
	}
	for _, hash := range []string{"#/watch", "#/health", "#/inspect?text=%3Cimg%20src%3Dx%20onerror%3D%22window.stolen%3D1%22%3E", "#/history"} {
		p.visit(hash)
		p.until(hash+" is shown", `document.querySelector("main")?.innerText.length > 0`)
		harmless(hash)
	}
	if cookie := js[string](p, `document.cookie`); cookie != "" {
		t.Errorf("scripts read the cookie %q", cookie)
	}
	if kept := js[string](p, `JSON.stringify({ ...localStorage, ...sessionStorage })`); strings.Contains(kept, "rt1_") || strings.Contains(kept, "eyJ") {
		t.Errorf("a token is in the storage: %s", kept)
	}
}

// TestConsoleSessionOfAnotherPage requests the session of the console from a page of another origin,
// in a browser that has its cookie.
func TestConsoleSessionOfAnotherPage(t *testing.T) {
	g := serve(t)
	g.addUser("maria")
	p := open(t, g.clients, "/console/#/watch", allowing("403", "CORS", "Failed to fetch", "ERR_FAILED", "ERR_BLOCKED"))
	p.do(chromedp.WaitVisible(`input[name=username]`, chromedp.ByQuery))
	p.fill(`input[name=username]`, "maria")
	p.fill(`input[name=password]`, userPassword+"\r")
	p.live()
	session := js[string](p, `localStorage.getItem("rueda.session")`)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><title>another page</title>")
	}))
	t.Cleanup(other.Close)
	p.do(chromedp.Navigate(other.URL)) // another port: the same site, so that the browser sends the cookie
	for what, init := range map[string]string{
		"with the header": fmt.Sprintf(`{method: "POST", credentials: "include", headers: {"X-Rueda-Console": "1", "Content-Type": "application/json"}, body: '{"session":"%s"}'}`, session),
		"as a form":       fmt.Sprintf(`{method: "POST", credentials: "include", mode: "no-cors", headers: {"Content-Type": "text/plain"}, body: '{"session":"%s"}'}`, session),
	} {
		got := js[string](p, fmt.Sprintf(`fetch(%q, %s).then((r) => r.type + " " + r.status, (e) => String(e))`, g.clients+"/console/session/refresh", init))
		if strings.Contains(got, "200") {
			t.Errorf("%s: %s", what, got)
		}
	}
	p.mu.Lock()
	p.foreign = nil // the requests of this test
	p.mu.Unlock()
	p.do(chromedp.Navigate(g.clients + "/console/#/watch"))
	p.live() // the login is what it was
	p.mu.Lock()
	p.foreign = nil
	p.mu.Unlock()
}

// TestFraming puts pages of the gateway into a frame of another origin. The browser refuses to show
// them.
func TestFraming(t *testing.T) {
	g := serve(t)
	p := open(t, g.admin, "/operations/", allowing("frame-ancestors", "Framing", "ERR_BLOCKED", "violates"))
	p.foreign = nil
	for _, address := range []string{g.clients + "/", g.clients + "/console/", g.clients + "/docs", g.admin + "/operations/"} {
		shown := js[bool](p, fmt.Sprintf(`new Promise((resolve) => {
			const f = document.createElement("iframe");
			f.src = %q;
			f.onload = () => { let body = ""; try { body = f.contentDocument?.body?.innerText ?? ""; } catch { body = ""; } resolve(body.includes("Rueda")); };
			document.body.append(f);
			setTimeout(() => resolve(false), 3000);
		})`, address))
		if shown {
			t.Errorf("%s is shown in a frame", address)
		}
	}
	p.mu.Lock()
	p.foreign = nil // the frames
	p.mu.Unlock()
}
