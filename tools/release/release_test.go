package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/ruedahq/rueda/internal/api/console"
	"github.com/ruedahq/rueda/internal/api/downloads"
	"github.com/ruedahq/rueda/internal/ops/cli"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// platform is that of this machine. Tests build only one, because each takes a minute.
const platform = runtime.GOOS + "/" + runtime.GOARCH

// built builds a release of this checkout.
func built(t *testing.T) *release {
	t.Helper()
	r, err := newRelease(t.Context(), "../..", t.TempDir(), command.ReadBuild().Version)
	if err != nil {
		t.Fatal(err)
	}
	r.platforms = []string{platform}
	if err := r.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestReproducible builds the commit twice, in folders with different names and with different build
// caches, one of which is empty. All files are equal.
func TestReproducible(t *testing.T) {
	here, err := newRelease(t.Context(), "../..", t.TempDir(), command.ReadBuild().Version)
	if err != nil {
		t.Fatal(err)
	}
	here.platforms = []string{platform}
	r, err := here.clone(t.Context(), filepath.Join(t.TempDir(), "tree"), filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.verify(t.Context()); err != nil {
		t.Error(err)
	}
	sums, err := os.ReadFile(filepath.Join(r.out, checksumsFile))
	if err != nil || bytes.Count(sums, []byte("\n")) < 2 {
		t.Fatalf("checksums %q, %v", sums, err)
	}
	check := exec.Command("sha256sum", "--strict", "-c", checksumsFile)
	check.Dir = r.out
	if text, err := check.CombinedOutput(); err != nil {
		t.Errorf("sha256sum: %v\n%s", err, text)
	}
}

// TestTags checks the version of checkouts with and without the tag of their release, and which tags
// are refused.
func TestTags(t *testing.T) {
	tree := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		identity := []string{"-C", tree, "-c", "user.name=ana", "-c", "user.email=ana@broker.example", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"}
		if text, err := exec.Command("git", slices.Concat(identity, args)...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, text)
		}
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "a release")
	for _, name := range []string{"v0.1.0", "v0.2.0", "v0.3.0-dev"} {
		git("tag", name)
	}
	for _, c := range []struct {
		number, tag   string
		release, same bool // the version is number alone; the tag is accepted
	}{
		{"0.2.0", "v0.2.0", true, true},
		{"0.2.0", "v0.1.0", true, false},
		{"0.2.0", "0.2.0", true, false},
		{"0.2.0-dev", "v0.2.0", false, false},
		{"0.3.0-dev", "v0.3.0-dev", false, false},
		{"0.3.0", "v0.3.0", false, false},
	} {
		r, err := newRelease(t.Context(), tree, t.TempDir(), c.number)
		if err != nil {
			t.Fatal(err)
		}
		if between := strings.HasPrefix(r.version, c.number+"+git"); between == c.release || !between && r.version != c.number {
			t.Errorf("%s: the version is %s", c.number, r.version)
		}
		if err := r.checkTag(c.tag); (err == nil) != c.same {
			t.Errorf("%s: the tag %s: %v", c.number, c.tag, err)
		}
	}
}

// TestArchive checks what the archive of this platform has: a static binary that knows its commit,
// man pages of all commands, completions, licenses, and a bill of materials of the same binary.
func TestArchive(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the archive is another one: runtime.GOOS")
	}
	r := built(t)
	base := "rueda_" + r.version + "_" + runtime.GOOS + "_" + runtime.GOARCH
	files := unpack(t, filepath.Join(r.out, base+".tar.gz"), base)
	for _, name := range []string{"rueda", "LICENSE", "README.md", "CHANGELOG.md", licensesFile, "man/rueda.1", "man/rueda-serve.1",
		"man/rueda-user-account-add.1", "docs/operations.md", "deploy/prometheus/alerts.yml", "deploy/grafana/rueda.json",
		"deploy/systemd/rueda.service", "deploy/docker/Dockerfile", "completions/rueda.bash", "completions/_rueda", "completions/rueda.fish", "completions/rueda.ps1"} {
		if len(files[name]) < 200 {
			t.Errorf("%s has %d bytes", name, len(files[name]))
		}
	}
	packages, err := downloads.Files()
	if err != nil || len(packages) == 0 {
		t.Fatal(len(packages), err)
	}
	for _, p := range packages {
		if !bytes.Equal(files[clientsFolder+p.Name], p.Data) {
			t.Errorf("the archive does not have %s as a gateway has it", p.Name)
		}
	}
	program := filepath.Join(t.TempDir(), "rueda")
	if err := os.WriteFile(program, files["rueda"], 0o755); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" {
		checkStatic(t, program)
	}
	text, err := exec.Command(program, "version", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var version struct{ Version, Commit string }
	if err := json.Unmarshal(text, &version); err != nil || version.Commit != r.commit || !strings.HasPrefix(r.version, version.Version) {
		t.Errorf("the binary is %s, %v; want commit %s", text, err, r.commit)
	}
	line, err := exec.Command(program, "version").Output()
	if err != nil || !strings.HasPrefix(string(line), "rueda "+version.Version+" ("+r.commit[:12]) {
		t.Errorf("the binary prints %q, %v; want commit %s", line, err, r.commit)
	}
	for name, text := range files {
		if strings.HasPrefix(name, manFolder) && !bytes.Contains(text, []byte(r.time.Format("Jan 2006"))) {
			t.Errorf("%s does not have the date of the commit", name)
		}
		if tree := []byte(r.tree); bytes.Contains(text, tree) {
			t.Errorf("%s contains the path of the checkout", name)
		}
	}
	script := filepath.Join(t.TempDir(), "rueda.bash")
	if err := os.WriteFile(script, files["completions/rueda.bash"], 0o644); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command("bash", "-n", script).CombinedOutput(); err != nil {
		t.Errorf("completion: %v\n%s", err, text)
	}
	checkBill(t, filepath.Join(r.out, base+".cdx.json"), program, files[licensesFile])
}

// checkStatic checks that a binary needs no loader and no library.
func checkStatic(t *testing.T, program string) {
	t.Helper()
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the binary has a segment %s", p.Type)
		}
	}
}

// checkBill checks that a bill of materials names all modules of a binary and all libraries of its
// pages, and that the licenses are known.
func checkBill(t *testing.T, name, program string, licenses []byte) {
	t.Helper()
	text, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	var bill cdx.BOM
	if err := cdx.NewBOMDecoder(text, cdx.BOMFileFormatJSON).Decode(&bill); err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range info.Deps {
		want = append(want, m.Path+" "+m.Version)
		if !bytes.Contains(licenses, []byte("\n"+m.Path+" "+m.Version+": ")) {
			t.Errorf("%s does not have the license of %s", licensesFile, m.Path)
		}
	}
	if n := bytes.Count(licenses, []byte("Redistribution and use")) + bytes.Count(licenses, []byte("Permission is hereby granted")); n < len(info.Deps)/2 {
		t.Errorf("%s has the text of %d licenses", licensesFile, n)
	}
	var got []string
	libraries := 0
	for _, c := range *bill.Components {
		switch {
		case c.Name == "std":
			continue
		case strings.HasPrefix(c.PackageURL, "pkg:npm/"):
			libraries++
			continue
		}
		got = append(got, c.Name+" "+c.Version)
		if c.Hashes == nil || len((*c.Hashes)[0].Value) != 64 || c.PackageURL == "" {
			t.Errorf("%s has no hash or no package URL", c.Name)
		}
	}
	if slices.Sort(got); len(want) < 20 || !slices.Equal(got, want) {
		t.Errorf("the bill has %q, the binary %q", got, want)
	}
	if libraries < 5 {
		t.Errorf("the bill has %d libraries of JavaScript", libraries)
	}
	if bill.Metadata.Component.Name != "rueda" || bill.SpecVersion != cdx.SpecVersion1_6 || !strings.HasPrefix(bill.SerialNumber, "urn:uuid:") {
		t.Errorf("the bill is of %s, version %s", bill.Metadata.Component.Name, bill.SpecVersion)
	}
}

// TestLibraries checks that the libraries of a bill are the files that the pages load.
func TestLibraries(t *testing.T) {
	list, err := (&release{tree: "../.."}).libraries()
	if err != nil {
		t.Fatal(err)
	}
	files := []string{"LICENSES.txt"}
	for _, c := range list {
		files = append(files, libraryFiles(t, &c)...)
	}
	entries, err := fs.ReadDir(console.Files(), "vendor")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(files, e.Name()) {
			t.Errorf("the bill does not have %s", e.Name())
		}
	}
	if len(files) != len(entries) || len(list) != 6 {
		t.Errorf("%d libraries have the files %q", len(list), files)
	}
}

// libraryFiles returns the names of the files of a library, whose hashes it compares with those that
// the pages load.
func libraryFiles(t *testing.T, c *cdx.Component) (names []string) {
	t.Helper()
	if c.Licenses == nil || c.Version == "" || !strings.HasSuffix(c.PackageURL, strings.TrimPrefix(c.Name, "@")+"@"+c.Version) {
		t.Errorf("the library %s %s has the package URL %s", c.Name, c.Version, c.PackageURL)
	}
	for _, f := range *c.Components {
		text, err := fs.ReadFile(console.Files(), "vendor/"+f.Name)
		if err != nil {
			t.Error(err)
		}
		sum := sha256.Sum256(text)
		if got := hex.EncodeToString(sum[:]); (*f.Hashes)[0].Value != got {
			t.Errorf("%s has SHA-256 %s, the bill %s", f.Name, got, (*f.Hashes)[0].Value)
		}
		names = append(names, f.Name)
	}
	return names
}

// unpack returns the files below a folder of an archive.
func unpack(t *testing.T, name, folder string) map[string][]byte {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(z); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		name, ok := strings.CutPrefix(h.Name, folder+"/")
		if !ok || h.Uid != 0 || h.Uname != "" {
			t.Errorf("the archive has %s of user %d %q", h.Name, h.Uid, h.Uname)
		}
		files[name] = text
	}
}

// TestManPages checks that each command of docs/command-line.md, and so of the program, has a man
// page with its synopsis, and that there are no others.
func TestManPages(t *testing.T) {
	text, err := os.ReadFile("../../docs/command-line.md")
	if err != nil {
		t.Fatal(err)
	}
	root := cli.Root()
	root.InitDefaultHelpCmd()
	pages, err := (&release{version: "0", time: time.Unix(0, 0)}).manPages(root)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, p := range pages {
		got[p.name] = string(p.data)
	}
	listed := regexp.MustCompile("(?m)^\\| `(rueda [a-z -]+)` \\|").FindAllStringSubmatch(string(text), -1)
	if len(listed) < 80 {
		t.Fatalf("the document has %d commands", len(listed))
	}
	for _, m := range listed {
		name := manFolder + strings.ReplaceAll(m[1], " ", "-") + ".1"
		if page := got[name]; !strings.Contains(page, ".SH SYNOPSIS") || !strings.Contains(page, `\fB`+m[1]) {
			t.Errorf("%s has no page, or not its synopsis: %.200s", m[1], page)
		}
		delete(got, name)
	}
	for name := range got {
		if name != manFolder+"rueda.1" && !strings.HasPrefix(name, manFolder+"rueda-completion") {
			t.Errorf("there is no command for %s", name)
		}
	}
}
