//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// pkg is a package, as go list describes it.
type pkg struct {
	Dir, ImportPath, Name              string
	GoFiles, CgoFiles                  []string // that are built on this system
	TestGoFiles, XTestGoFiles          []string
	Imports, TestImports, XTestImports []string
	Module                             struct{ Path, Dir string }

	support   bool     // of tests, or in a folder that has no product code
	importers []string // packages of the module that import it in code or tests, sorted
	tests     []string // names of its tests, examples and fuzz tests
}

// tree is a module.
type tree struct {
	dir      string // absolute
	module   string // its path
	packages map[string]*pkg
}

func readTree(ctx context.Context, dir string) (*tree, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-json=Dir,ImportPath,Name,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports,Module", "./...")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	t := &tree{packages: map[string]*pkg{}}
	for dec := json.NewDecoder(bytes.NewReader(text)); ; {
		p := &pkg{}
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("list packages: %w", err)
		}
		t.packages[p.ImportPath], t.dir, t.module = p, p.Module.Dir, p.Module.Path
	}
	if len(t.packages) == 0 {
		return nil, fmt.Errorf("%s has no packages", dir)
	}
	for _, p := range t.packages {
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if q := t.packages[path]; q != nil && q != p && !slices.Contains(q.importers, p.ImportPath) {
				q.importers = append(q.importers, p.ImportPath)
			}
		}
		if err := p.readTests(); err != nil {
			return nil, err
		}
	}
	for _, p := range t.packages {
		slices.Sort(p.importers)
	}
	t.markSupport()
	return t, nil
}

// rel returns the folder of a package, from that of the module.
func (t *tree) rel(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, t.module), "/")
}

// markSupport finds the packages without product code.
func (t *tree) markSupport() {
	other := regexp.MustCompile(`(^|/)(bench|examples|tests|tools)(/|$)|test$`)
	for changed := true; changed; {
		changed = false
		for _, p := range t.packages {
			isSupport := func(path string) bool { q := t.packages[path]; return path == "testing" || q != nil && q.support }
			uses := func(path string) bool {
				q := t.packages[path]
				return !q.support && slices.Contains(q.Imports, p.ImportPath)
			}
			internal := strings.Contains(p.ImportPath, "/internal/") && p.Name != "main"
			support := other.MatchString(t.rel(p.ImportPath)) || slices.ContainsFunc(p.Imports, isSupport) || internal && !slices.ContainsFunc(p.importers, uses)
			changed = changed || support != p.support
			p.support = support
		}
	}
}

func (p *pkg) readTests() error {
	name := regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz)\w*)\(`)
	for _, file := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		text, err := os.ReadFile(filepath.Join(p.Dir, file))
		if err != nil {
			return err
		}
		for _, m := range name.FindAllStringSubmatch(string(text), -1) {
			if m[1] != "TestMain" {
				p.tests = append(p.tests, m[1])
			}
		}
	}
	return nil
}

// withTests returns those of the packages that have a test for arguments of go test.
func (t *tree) withTests(paths []string, args string) ([]string, error) {
	run, skip := regexp.MustCompile(""), regexp.MustCompile("^$")
	for _, m := range regexp.MustCompile(`(?:^|\s)--?(run|skip)[ =](\S+)`).FindAllStringSubmatch(args, -1) {
		pattern, subtests, _ := strings.Cut(m[2], "/")
		re, err := regexp.Compile(pattern)
		if err != nil {
			return nil, err
		}
		if m[1] == "run" {
			run = re
		} else if subtests == "" {
			skip = re
		}
	}
	matches := func(test string) bool { return run.MatchString(test) && !skip.MatchString(test) }
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
		return !slices.ContainsFunc(t.packages[path].tests, matches)
	}), nil
}
