package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// checksumsFile is the list of the files of a release, as sha256sum writes it.
const checksumsFile = "SHA256SUMS"

// release builds the files of one checkout.
type release struct {
	tree      string   // folder of the checkout
	out       string   // folder of the results
	cache     string   // build cache; "": that of the user
	version   string   // 0.2.0; between releases with the time and the commit: 0.2.0-dev+git20261123121029.099e7fac3b4d
	platforms []string // GOOS/GOARCH
	commit    string
	time      time.Time // of the commit; every file has it
	modified  bool      // the checkout differs from the commit
}

// newRelease reads commit, time and version of a checkout. number is the version of its source.
func newRelease(ctx context.Context, tree, out, number string) (*release, error) {
	r := &release{version: number}
	var err error
	if r.tree, err = filepath.Abs(tree); err != nil {
		return nil, err
	}
	if r.out, err = filepath.Abs(out); err != nil {
		return nil, err
	}
	head, err := r.git(ctx, "log", "-1", "--format=%H %cI")
	if err != nil {
		return nil, err
	}
	commit, stamp, _ := strings.Cut(head, " ")
	at, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return nil, err
	}
	r.commit, r.time = commit, at.UTC()
	changes, err := r.git(ctx, "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	r.modified = changes != ""
	tags, err := r.git(ctx, "tag", "--points-at", "HEAD")
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(number, "-dev") || !slices.Contains(strings.Fields(tags), "v"+number) {
		r.version += r.time.Format("+git20060102150405.") + commit[:12]
	}
	return r, nil
}

// checkTag returns an error unless the checkout is the release of a tag. A version with -dev is that
// of no tag.
func (r *release) checkTag(tag string) error {
	if tag != "v"+r.version {
		return fmt.Errorf("the checkout is version %s, not %s", r.version, tag)
	}
	return nil
}

// clone returns the release of a new clone of the commit.
func (r *release) clone(ctx context.Context, tree, out string) (*release, error) {
	if _, err := r.git(ctx, "clone", "-q", "--no-checkout", r.tree, tree); err != nil {
		return nil, err
	}
	other := *r
	other.tree, other.out, other.modified = tree, out, false
	_, err := other.git(ctx, "checkout", "-q", "--detach", r.commit)
	return &other, err
}

func (r *release) git(ctx context.Context, args ...string) (string, error) {
	text, err := output(exec.CommandContext(ctx, "git", slices.Concat([]string{"-C", r.tree}, args)...))
	return strings.TrimSpace(text), err
}

// output runs a command and returns its standard output. Its errors have what it wrote to standard
// error.
func output(cmd *exec.Cmd) (string, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, &stderr)
	}
	return string(text), nil
}

// build writes the files of all platforms, and the list of their checksums.
func (r *release) build(ctx context.Context) error {
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	common, err := r.commonFiles(ctx)
	if err != nil {
		return err
	}
	for _, platform := range r.platforms {
		goos, arch, ok := strings.Cut(platform, "/")
		if !ok {
			return fmt.Errorf("%q is not a platform such as linux/amd64", platform)
		}
		if err := r.buildPlatform(ctx, goos, arch, common); err != nil {
			return err
		}
	}
	return r.writeChecksums()
}

// buildPlatform writes the archive of a platform, its bill of materials, and a Debian package.
func (r *release) buildPlatform(ctx context.Context, goos, arch string, common []file) error {
	binary := filepath.Join(r.out, "rueda")
	if err := r.compile(ctx, goos, arch, binary); err != nil {
		return err
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	bill, err := r.bill(binary, goos, arch)
	if err != nil {
		return err
	}
	if err := os.Remove(binary); err != nil {
		return err
	}
	base := "rueda_" + r.version + "_" + goos + "_" + arch
	extension := ""
	if goos == "windows" {
		extension = ".exe"
	}
	all := append([]file{{name: "rueda" + extension, mode: 0o755, data: program}}, common...)
	archive, name, err := r.archive(base, goos, all)
	if err != nil {
		return err
	}
	results := []file{{name: name, data: archive}, {name: base + ".cdx.json", data: bill}}
	if goos == "linux" {
		data, name, err := r.debian(arch, all)
		if err != nil {
			return err
		}
		results = append(results, file{name: name, data: data})
	}
	for _, f := range results {
		if err := os.WriteFile(filepath.Join(r.out, f.name), f.data, 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("%s  %.1f MB, binary %.1f MB\n", name, float64(len(archive))/1e6, float64(len(program))/1e6)
	return nil
}

// compile builds a static binary without anything of this machine: no C, no paths, no build ID. Its
// build information has the commit.
func (r *release) compile(ctx context.Context, goos, arch, binary string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w -buildid=", "-o", binary, "./cmd/rueda")
	cmd.Dir = r.tree
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=-mod=readonly", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off", fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.time.Unix()))
	if r.cache != "" {
		cmd.Env = append(cmd.Env, "GOCACHE="+r.cache)
	}
	_, err := output(cmd)
	return err
}

// writeChecksums lists the files of the folder with their SHA-256.
func (r *release) writeChecksums() error {
	entries, err := os.ReadDir(r.out) // sorted
	if err != nil {
		return err
	}
	var list bytes.Buffer
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return os.WriteFile(filepath.Join(r.out, checksumsFile), list.Bytes(), 0o644)
}
