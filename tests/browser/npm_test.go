package browser

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/api/console"
)

// npmPatience is the longest time for the download of packages.
const npmPatience = 3 * time.Minute

// packages installs the packages of a lock file in a temporary folder, and returns it. Without npm,
// the test is skipped.
func packages(t *testing.T, from ...string) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range from {
		content, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, filepath.Base(name)), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	install := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir, install.WaitDelay = folder, npmPatience
	if out, err := install.CombinedOutput(); err != nil {
		if os.Getenv("RUEDA_REQUIRE_ALL") != "" {
			t.Fatalf("npm: %v\n%s", err, out)
		}
		t.Skipf("the packages cannot be installed with npm: %v\n%s", err, out)
	}
	return folder
}

// TestLibrariesAreThoseOfNPM compares the vendored libraries with the packages that npm has.
func TestLibrariesAreThoseOfNPM(t *testing.T) {
	folder := packages(t, "node/package.json", "node/package-lock.json")
	text, err := os.ReadFile("../../internal/api/console/vendored.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		File, Package, Version, From string
		Imports                      map[string]string
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	for _, l := range list {
		want, err := os.ReadFile(filepath.Join(folder, "node_modules", l.Package, l.From))
		if err != nil {
			t.Error(err)
			continue
		}
		for name, file := range l.Imports {
			want = regexp.MustCompile(`(from\s*)"`+regexp.QuoteMeta(name)+`"`).ReplaceAll(want, []byte(`${1}"`+file+`"`))
		}
		f, err := console.Files().Open("vendor/" + l.File)
		if err != nil {
			t.Error(err)
			continue
		}
		var got bytes.Buffer
		if _, err := got.ReadFrom(f); err != nil || f.Close() != nil || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s differs from %s of %s %s", l.File, l.From, l.Package, l.Version)
		}
	}
}

// TestClientIsCompiled compiles the TypeScript client and compares the modules and their types with
// those of dist.
func TestClientIsCompiled(t *testing.T) {
	const client = "../../clients/typescript"
	folder := packages(t, client+"/package.json", client+"/package-lock.json", client+"/tsconfig.json", client+"/tsconfig.node.json")
	if err := os.CopyFS(filepath.Join(folder, "src"), os.DirFS(client+"/src")); err != nil {
		t.Fatal(err)
	}
	for _, project := range []string{"tsconfig.json", "tsconfig.node.json"} {
		compile := exec.CommandContext(t.Context(), "node", "node_modules/typescript/bin/tsc", "-p", project)
		compile.Dir = folder
		if out, err := compile.CombinedOutput(); err != nil {
			t.Fatalf("tsc: %v\n%s", err, out)
		}
	}
	modules := func(folder string) map[string]string {
		files, err := filepath.Glob(filepath.Join(folder, "dist", "*.*s"))
		if err != nil || len(files) < 2 {
			t.Fatalf("%d modules in %s, %v", len(files), folder, err)
		}
		texts := map[string]string{}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			texts[filepath.Base(name)] = string(text)
		}
		return texts
	}
	want, got := modules(folder), modules(client)
	for name, text := range want {
		if got[name] != text {
			t.Errorf("dist/%s is not what src compiles to: npm run build", name)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("dist/%s has no source", name)
		}
	}
}

// TestAxe checks every page in both themes with axe-core: names, roles, order, contrast.
func TestAxe(t *testing.T) {
	axe, err := os.ReadFile(filepath.Join(packages(t, "node/package.json", "node/package-lock.json"), "node_modules/axe-core/axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, dev(t), "/console/")
	p.until("the sign-in", `document.querySelector("input[name=username]")`)
	check := func(page string) {
		t.Helper()
		found := js[string](p, `(async () => {`+string(axe)+`;
			await Promise.all(document.getAnimations().map((a) => a.finished.catch(() => 0)));
			const r = await axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]});
			return r.violations.map((v) => v.id + " (" + v.impact + "): " + v.nodes.slice(0, 3).map((n) => n.target.join(" ") + " " + n.failureSummary.split("\n").slice(1).join(";")).join(" | ")).join("\n");
		})()`)
		if found != "" {
			t.Errorf("%s:\n%s", page, found)
		}
	}
	check("sign-in")
	p.signIn("demo")
	for _, theme := range []string{"light", "dark"} {
		p.until("the theme", `document.documentElement.dataset.theme === "`+theme+`" || (document.querySelectorAll(".controls button")[1].click(), false)`)
		for name, hash := range pages() {
			p.visit(hash)
			p.until("the page", `document.querySelector("h1")`)
			time.Sleep(1500 * time.Millisecond) // its data
			check(strings.Join([]string{name, theme}, " "))
		}
	}
}
