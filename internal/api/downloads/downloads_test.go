package downloads

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/BurntSushi/toml"

	"github.com/ruedahq/rueda/clients/python"
	"github.com/ruedahq/rueda/clients/typescript"
)

func made(t *testing.T) (wheel, tarball File) {
	t.Helper()
	files, err := Files()
	if err != nil || len(files) != 2 {
		t.Fatal(len(files), err)
	}
	return files[0], files[1]
}

// TestSameBytes checks that two calls make the same files, and that their hashes are right.
func TestSameBytes(t *testing.T) {
	wheel, tarball := made(t)
	again, other := made(t)
	if !bytes.Equal(wheel.Data, again.Data) || !bytes.Equal(tarball.Data, other.Data) {
		t.Error("a second call makes other files")
	}
	for _, f := range []File{wheel, tarball} {
		if got := fmt.Sprintf("%x", sha256.Sum256(f.Data)); f.SHA256 != got {
			t.Errorf("%s has SHA-256 %s, want %s", f.Name, f.SHA256, got)
		}
	}
}

// TestWheel reads the wheel with other code: RECORD lists each file with its hash and size, the
// modules are those of the source, and the metadata are those of pyproject.toml.
func TestWheel(t *testing.T) {
	wheel, _ := made(t)
	z, err := zip.NewReader(bytes.NewReader(wheel.Data), int64(len(wheel.Data)))
	if err != nil {
		t.Fatal(err)
	}
	version := strings.TrimSuffix(strings.TrimPrefix(wheel.Name, "rueda-"), "-py3-none-any.whl")
	info := "rueda-" + version + ".dist-info/"
	content, last := map[string][]byte{}, ""
	for _, f := range z.File {
		text, err := fs.ReadFile(z, f.Name)
		if err != nil || content[f.Name] != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		if content[f.Name], last = text, f.Name; f.Mode() != 0o644 || f.Modified.Year() != 1980 {
			t.Errorf("%s has mode %v and the time %v", f.Name, f.Mode(), f.Modified)
		}
	}
	if last != info+"RECORD" {
		t.Errorf("the last file is %s", last)
	}
	rows, err := csv.NewReader(bytes.NewReader(content[info+"RECORD"])).ReadAll()
	if err != nil || len(rows) != len(content) {
		t.Fatalf("RECORD has %d rows, the wheel %d files, %v", len(rows), len(content), err)
	}
	for _, row := range rows {
		sum := sha256.Sum256(content[row[0]])
		want := []string{row[0], "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]), fmt.Sprint(len(content[row[0]]))}
		if row[0] == info+"RECORD" {
			want = []string{row[0], "", ""}
		}
		if _, ok := content[row[0]]; !ok || !slices.Equal(row, want) {
			t.Errorf("RECORD has %q, want %q", row, want)
		}
	}
	modules, err := fs.Glob(python.Package(), "rueda/*")
	if err != nil || len(modules) < 15 {
		t.Fatal(modules, err)
	}
	for _, name := range modules {
		want, err := fs.ReadFile(python.Package(), name)
		if got, ok := content[name]; err != nil || !ok || !bytes.Equal(got, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(modules) + 4; len(content) != n {
		t.Errorf("the wheel has %d files, want %d", len(content), n)
	}
	checkMetadata(t, content[info+"METADATA"], version)
}

// checkMetadata compares the file METADATA with pyproject.toml.
func checkMetadata(t *testing.T, text []byte, version string) {
	t.Helper()
	head, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(text))).ReadMIMEHeader()
	if err != nil {
		t.Fatal(err)
	}
	var settings struct {
		Project struct {
			Name         string
			Description  string
			Python       string              `toml:"requires-python"`
			Dependencies []string            `toml:"dependencies"`
			Optional     map[string][]string `toml:"optional-dependencies"`
			Classifiers  []string            `toml:"classifiers"`
		}
	}
	if _, err := toml.DecodeFS(python.Package(), "pyproject.toml", &settings); err != nil {
		t.Fatal(err)
	}
	p := settings.Project
	requires, extras := slices.Clone(p.Dependencies), slices.Sorted(maps.Keys(p.Optional))
	for _, extra := range extras {
		for _, d := range p.Optional[extra] {
			requires = append(requires, d+`; extra == "`+extra+`"`)
		}
	}
	for field, want := range map[string][]string{
		"Name": {p.Name}, "Version": {version}, "Summary": {p.Description}, "Requires-Python": {p.Python},
		"Requires-Dist": requires, "Provides-Extra": extras, "Classifier": p.Classifiers,
	} {
		if !slices.Equal(head[field], want) {
			t.Errorf("METADATA has %s %q, pyproject.toml %q", field, head[field], want)
		}
	}
	if readme, err := fs.ReadFile(python.Package(), "README.md"); err != nil || !bytes.HasSuffix(text, append([]byte("\n\n"), readme...)) {
		t.Errorf("METADATA does not end with the guide, %v", err)
	}
}

// TestTarball reads the tarball with other code: it has the files of the package below package/,
// and nothing of a user.
func TestTarball(t *testing.T) {
	_, tarball := made(t)
	z, err := gzip.NewReader(bytes.NewReader(tarball.Data))
	if err != nil {
		t.Fatal(err)
	}
	if !z.ModTime.IsZero() || z.Name != "" {
		t.Errorf("the file has the time %v and the name %q", z.ModTime, z.Name)
	}
	seen := map[string]bool{}
	for archive := tar.NewReader(z); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		name, below := strings.CutPrefix(h.Name, "package/")
		want, err := fs.ReadFile(typescript.Package(), name)
		if err != nil || !below || !bytes.Equal(got, want) || h.Mode != 0o644 || h.Uid != 0 || h.Uname != "" || h.ModTime.Year() != 1985 {
			t.Errorf("%s: %+v, %v", h.Name, h, err)
		}
		seen[name] = true
	}
	modules, err := fs.Glob(typescript.Package(), "dist/*")
	if err != nil || len(modules) < 40 {
		t.Fatal(modules, err)
	}
	for _, name := range append(modules, "package.json", "LICENSE", "README.md") {
		if !seen[name] {
			t.Errorf("the package does not have %s", name)
		}
	}
	if len(seen) != len(modules)+3 {
		t.Errorf("the package has %d files: %v", len(seen), seen)
	}
}

// TestMistakes checks that a source that lacks something is an error, and not a broken package.
func TestMistakes(t *testing.T) {
	module, text := &fstest.MapFile{Data: []byte("__version__ = \"1.0\"\n")}, &fstest.MapFile{}
	whole := fstest.MapFS{"rueda/_version.py": module, "rueda/py.typed": text, "README.md": text, "LICENSE": text}
	if _, err := wheel(whole); err != nil {
		t.Fatal(err)
	}
	for name := range whole {
		part := fstest.MapFS{}
		for other, file := range whole {
			if other != name {
				part[other] = file
			}
		}
		if _, err := wheel(part); err == nil {
			t.Errorf("a wheel is made without %s", name)
		}
	}
	whole["rueda/_version.py"] = text
	if _, err := wheel(whole); err == nil {
		t.Error("a wheel is made without a version")
	}
	if _, err := tarball(fstest.MapFS{"package.json": text, "LICENSE": text, "README.md": text, "dist/a.js": text, "dist/a.d.ts": text}); err == nil {
		t.Error("a tarball is made of an empty package.json")
	}
}

// TestServer requests the packages: complete, by HEAD, again with the entity tag, and others.
func TestServer(t *testing.T) {
	s := NewServer()
	ask := func(method, target, tag string) *http.Response {
		r := httptest.NewRequest(method, target, nil)
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Result()
	}
	files, err := s.Files()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		at := "/" + f.Name
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			r := ask(method, at, "")
			body, err := io.ReadAll(r.Body)
			if err != nil || r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != f.Media || r.ContentLength != int64(len(f.Data)) || r.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s %s: %d %v, %v", method, at, r.StatusCode, r.Header, err)
			}
			if want := f.Data; method == http.MethodGet && !bytes.Equal(body, want) || method == http.MethodHead && len(body) > 0 {
				t.Errorf("%s %s: %d bytes", method, at, len(body))
			}
			if again := ask(method, at, r.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
				t.Errorf("%s %s with its entity tag: %d", method, at, again.StatusCode)
			}
		}
		if r := ask(http.MethodPost, at, ""); r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("POST %s: %d", at, r.StatusCode)
		}
	}
	if r := ask(http.MethodGet, "/rueda-0.0.1-py3-none-any.whl", ""); r.StatusCode != http.StatusNotFound {
		t.Errorf("another version: %d", r.StatusCode)
	}
}
