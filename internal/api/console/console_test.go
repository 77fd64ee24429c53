package console_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/clients/typescript"
	"github.com/ruedahq/rueda/internal/api/console"
)

// read returns the files of the console whose names have an extension, without those of libraries.
func read(t *testing.T, extension string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(console.Files(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != extension || strings.HasPrefix(name, "vendor/") {
			return err
		}
		text, err := fs.ReadFile(console.Files(), name)
		files[name] = string(text)
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files *%s, %v", len(files), extension, err)
	}
	return files
}

// library is an element of vendored.json.
type library struct {
	File    string            `json:"file"`
	Package string            `json:"package"`
	Version string            `json:"version"`
	From    string            `json:"from"`
	License string            `json:"license"`
	Sum     string            `json:"sha256"`
	Imports map[string]string `json:"imports"`
}

// TestVendored compares the libraries with the hashes in vendored.json.
func TestVendored(t *testing.T) {
	text, err := os.ReadFile("vendored.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []library
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	licenses, err := fs.ReadFile(console.Files(), "vendor/LICENSES.txt")
	if err != nil {
		t.Fatal(err)
	}
	found := []string{"LICENSES.txt"}
	for _, l := range list {
		content, err := fs.ReadFile(console.Files(), "vendor/"+l.File)
		if err != nil {
			t.Error(err)
			continue
		}
		sum := sha256.Sum256(content)
		if got := hex.EncodeToString(sum[:]); got != l.Sum {
			t.Errorf("%s has SHA-256 %s, vendored.json %s", l.File, got, l.Sum)
		}
		if !strings.Contains(l.File, l.Version) || l.From == "" || l.License == "" {
			t.Errorf("%s: a version that its name has not, no source or no licence: %+v", l.File, l)
		}
		if !bytes.Contains(licenses, []byte(l.Package+" "+l.Version)) {
			t.Errorf("vendor/LICENSES.txt does not name %s %s", l.Package, l.Version)
		}
		found = append(found, l.File)
	}
	entries, err := fs.ReadDir(console.Files(), "vendor")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(found, e.Name()) {
			t.Errorf("vendored.json does not name %s", e.Name())
		}
	}
}

// TestTexts checks that every text of the page has a Spanish one, and that no Spanish text is left.
func TestTexts(t *testing.T) {
	files := read(t, ".js")
	used := map[string]bool{}
	for name, text := range files {
		for _, m := range regexp.MustCompile(`\bt\("((?:[^"\\]|\\.)*)"`).FindAllStringSubmatch(text, -1) {
			used[m[1]] = true
		}
		if regexp.MustCompile("\\bt\\([`']").MatchString(text) {
			t.Errorf("%s: t takes a text in double quotes, so that this test finds it", name)
		}
	}
	spanish := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^  "((?:[^"\\]|\\.)*)": "((?:[^"\\]|\\.)*)",$`).FindAllStringSubmatch(files["app/lang/es.js"], -1) {
		spanish[m[1]] = m[2]
	}
	arguments := regexp.MustCompile(`\{\d\}`)
	for text := range used {
		other, ok := spanish[text]
		if !ok {
			t.Errorf("lang/es.js has no text for %q", text)
		}
		a, b := arguments.FindAllString(text, -1), arguments.FindAllString(other, -1)
		slices.Sort(a)
		slices.Sort(b)
		if ok && !slices.Equal(a, b) {
			t.Errorf("%q and %q have different arguments", text, other)
		}
	}
	for text := range spanish {
		if !used[text] {
			t.Errorf("no page has the text %q of lang/es.js", text)
		}
	}
}

// TestPolicy checks that the files need nothing that a strict content security policy forbids, and
// nothing of another origin.
func TestPolicy(t *testing.T) {
	inline := regexp.MustCompile(`(?i)<script(?:\s+type="[^"]*")?\s*>|<style|\sstyle\s*=|\son[a-z]+="|javascript:`)
	for name, text := range read(t, ".html") {
		if found := inline.FindString(text); found != "" {
			t.Errorf("%s has %q", name, found)
		}
	}
	forbidden := regexp.MustCompile(`\beval\(|new Function|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\sstyle=|dangerouslySetInnerHTML`)
	for name, text := range read(t, ".js") {
		if found := forbidden.FindString(text); found != "" {
			t.Errorf("%s has %q", name, found)
		}
	}
	other := regexp.MustCompile(`(?:@import|url\()[^;]*`)
	for name, text := range read(t, ".css") {
		if found := other.FindString(text); found != "" {
			t.Errorf("%s has %q", name, found)
		}
	}
}

// TestImports checks that every import of a module names a file.
func TestImports(t *testing.T) {
	imports := regexp.MustCompile(`(?:from\s*|import\s*\(?\s*)"([^"]+)"`)
	for name, text := range read(t, ".js") {
		for _, m := range imports.FindAllStringSubmatch(text, -1) {
			to := path.Join("console", path.Dir(name), m[1])
			files, file := console.Files(), strings.TrimPrefix(to, "console/")
			if strings.HasPrefix(to, "client/") {
				files, file = typescript.Files(), strings.TrimPrefix(to, "client/")
			}
			if _, err := fs.Stat(files, file); err != nil {
				t.Errorf("%s imports %s: %v", name, m[1], err)
			}
		}
	}
	for _, m := range regexp.MustCompile(`(?:href|src)="/console/([^"]+)"`).FindAllStringSubmatch(read(t, ".html")["index.html"], -1) {
		if _, err := fs.Stat(console.Files(), m[1]); err != nil {
			t.Errorf("index.html: %v", err)
		}
	}
}

// TestSize limits what a browser loads for the whole console, compressed as the gateway does.
func TestSize(t *testing.T) {
	const limit = 220_000
	total, sizes := 0, map[string]int{}
	for root, files := range map[string]fs.FS{"console": console.Files(), "client": typescript.Files()} {
		err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || name == "node.js" || path.Ext(name) == ".txt" {
				return err
			}
			content, err := fs.ReadFile(files, name)
			if err != nil {
				return err
			}
			var b bytes.Buffer
			w := gzip.NewWriter(&b)
			if _, err := w.Write(content); err != nil {
				return err
			}
			if err := w.Close(); err != nil {
				return err
			}
			total += b.Len()
			sizes[root+"/"+strings.Split(name, "/")[0]] += b.Len()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d bytes: %v", total, sizes)
	if total > limit {
		t.Errorf("the console has %d bytes compressed, at most %d: %v", total, limit, sizes)
	}
}
