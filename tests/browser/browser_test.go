package browser

import (
	"bufio"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience is how long a test waits for something that should come at once.
const patience = time.Minute

// shared has what all tests use: the program and the browser.
var shared struct {
	program string
	browser context.Context
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run starts the browser, and builds the program unless RUEDA_PROGRAM names one. Without Chromium it says so and runs no test.
func run(m *testing.M) int {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		fmt.Println("Left out: the console in a browser. Install chromium")
		if os.Getenv("RUEDA_REQUIRE_ALL") != "" {
			return 1
		}
		return 0
	}
	folder, err := os.MkdirTemp("", "rueda-browser-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(folder)
	shared.program = os.Getenv("RUEDA_PROGRAM")
	if shared.program == "" {
		shared.program = filepath.Join(folder, "rueda")
		build := exec.Command("go", "build", "-o", shared.program, "./cmd/rueda")
		build.Dir = "../.."
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Printf("build: %v\n%s", err, out)
			return 1
		}
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("force-color-profile", "srgb"), chromedp.Flag("hide-scrollbars", false), chromedp.Flag("lang", "en-US"),
		chromedp.UserDataDir(filepath.Join(folder, "profile")))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	ctx, end := chromedp.NewContext(allocator)
	defer end()
	if err := chromedp.Run(ctx); err != nil {
		fmt.Printf("start chromium: %v\n", err)
		return 1
	}
	shared.browser = ctx
	return m.Run()
}

// dev runs rueda dev with more flags until the test ends, and returns its address.
func dev(t *testing.T, flags ...string) string {
	t.Helper()
	address, _ := devUntil(t, flags...)
	return address
}

// devUntil is as dev. stop ends the program before the test ends.
func devUntil(t *testing.T, flags ...string) (address string, stop func()) {
	t.Helper()
	cmd := exec.Command(shared.program, append([]string{"dev", "--listen", "127.0.0.1:0"}, flags...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "TMPDIR="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	t.Cleanup(func() {
		stop()
		if t.Failed() && stderr.Len() > 0 {
			t.Logf("rueda dev: %s", stderr.String())
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := regexp.MustCompile(`^\s*REST\s+(http://\S+)`).FindStringSubmatch(lines.Text()); m != nil {
			go func() {
				for lines.Scan() {
				}
			}()
			return m[1], stop
		}
	}
	t.Fatal("rueda dev did not start")
	return "", nil
}

// page is a tab of its own, with its own cookies.
type page struct {
	t   *testing.T
	ctx context.Context
	url string
	own []string // hosts that the page may call

	mu       sync.Mutex
	problems []string
	allowed  []string // parts of problems that a test expects
	bytes    int64    // that were loaded
	foreign  []string
}

// open opens an address of a gateway in a tab. When the test ends, it fails if a script failed, the
// policy of the page was violated, or a request left the gateway.
func open(t *testing.T, gateway, path string, options ...func(*page)) *page {
	t.Helper()
	ctx, end := chromedp.NewContext(shared.browser, chromedp.WithNewBrowserContext())
	if err := chromedp.Run(ctx); err != nil { // the tab lives as long as this context
		t.Fatal(err)
	}
	p := &page{t: t, ctx: ctx, url: gateway, own: []string{host(t, gateway)}}
	for _, o := range options {
		o(p)
	}
	chromedp.ListenTarget(ctx, p.heard)
	t.Cleanup(func() {
		defer end()
		if t.Failed() {
			p.picture("failed-" + strings.ReplaceAll(t.Name(), "/", "-"))
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, problem := range p.problems {
			t.Errorf("the page says: %s", problem)
		}
		for _, address := range p.foreign {
			t.Errorf("a request left the gateway: %s", address)
		}
	})
	p.do(network.Enable(), log.Enable(), chromedp.EmulateViewport(1440, 900), chromedp.Navigate(gateway+path))
	return p
}

// host returns host and port of an address.
func host(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// heard records what the browser reports.
func (p *page) heard(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	say := func(text string) {
		for _, part := range p.allowed {
			if strings.Contains(text, part) {
				return
			}
		}
		p.problems = append(p.problems, text)
	}
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		say(e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			var text strings.Builder
			for _, a := range e.Args {
				fmt.Fprintf(&text, "%s %s ", a.Value, a.Description)
			}
			say(text.String())
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError {
			say(e.Entry.Text + " " + e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err == nil && !slices.Contains(p.own, u.Host) && u.Scheme != "data" && u.Scheme != "blob" {
			p.foreign = append(p.foreign, e.Request.URL)
		}
	case *network.EventLoadingFinished:
		p.bytes += int64(e.EncodedDataLength)
	}
}

// do runs actions, and ends the test if one fails.
func (p *page) do(actions ...chromedp.Action) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// js evaluates an expression, which may be a promise.
func js[T any](p *page, expression string) T {
	p.t.Helper()
	var value T
	p.do(chromedp.Evaluate(expression, &value, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
	return value
}

// until waits until an expression, which may be a promise, is true.
func (p *page) until(what, expression string) {
	p.t.Helper()
	deadline := time.Now().Add(patience)
	for !js[bool](p, "Promise.resolve("+expression+").then(Boolean)") {
		if time.Now().After(deadline) {
			p.t.Fatalf("%s: not true in %v: %s", what, patience, expression)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// text returns the text of an element.
func (p *page) text(selector string) string {
	p.t.Helper()
	return js[string](p, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}

// click clicks an element with the mouse.
func (p *page) click(selector string) {
	p.t.Helper()
	p.do(chromedp.ScrollIntoView(selector, chromedp.ByQuery), chromedp.Click(selector, chromedp.ByQuery, chromedp.NodeVisible))
}

// button clicks the button with a text.
func (p *page) button(text string) {
	p.t.Helper()
	p.do(chromedp.Click(fmt.Sprintf(`//button[normalize-space()=%q]`, text), chromedp.BySearch, chromedp.NodeVisible))
}

// signIn signs in as a user whose password is the name.
func (p *page) signIn(name string) {
	p.t.Helper()
	p.do(chromedp.WaitVisible(`input[name=username]`, chromedp.ByQuery))
	p.fill(`input[name=username]`, name)
	p.fill(`input[name=password]`, name+"\r")
	p.live()
}

// fill types a text into a field, in place of what it has. A text that ends with \r submits it.
func (p *page) fill(selector, text string) {
	p.t.Helper()
	p.do(chromedp.Focus(selector, chromedp.ByQuery), chromedp.Evaluate(`document.activeElement.select()`, nil), chromedp.KeyEvent(kb.Delete), chromedp.KeyEvent(text))
}

// live waits until the stream is live.
func (p *page) live() {
	p.t.Helper()
	p.until("the stream is live", `document.querySelector(".state.live")`)
}

// visit opens a view by its hash.
func (p *page) visit(hash string) {
	p.t.Helper()
	js[bool](p, fmt.Sprintf("(location.hash = %q, true)", hash))
}

// picture writes a picture of the page into the folder RUEDA_PICTURES, if there is one.
func (p *page) picture(name string) {
	folder := os.Getenv("RUEDA_PICTURES")
	if folder == "" {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	err := chromedp.Run(ctx, chromedp.ActionFunc(func(ctx context.Context) error {
		image, err := cdppage.CaptureScreenshot().WithFormat(cdppage.CaptureScreenshotFormatWebp).WithQuality(80).Do(ctx)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(folder, name+".webp"), image, 0o600)
	}))
	if err != nil {
		p.t.Logf("picture %s: %v", name, err)
	}
}
