package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A tier is a part of the tests. The name of a test has its tier. Tests with E2E in it start
// processes or compute for long. Tests that end in Long are storms, and loops over every byte or
// every kill. The others are quick.
type tier struct {
	args []string // of go test
	// wants reports whether the tier runs a package, by its tests and by whether its code or tests
	// start goroutines or guard state that goroutines share.
	wants func(tests []string, concurrent bool) bool
}

// tiers returns the tiers by name. "race" runs all tests that start no process, in the packages
// with goroutines or shared state, and asks Long tests for a short form.
func tiers() map[string]tier {
	return map[string]tier{
		"quick": {[]string{"-skip", "E2E|Long$"}, func(tests []string, _ bool) bool { return slices.ContainsFunc(tests, isQuick) }},
		"race": {[]string{"-skip", "E2E", "-short"}, func(tests []string, concurrent bool) bool {
			return concurrent && slices.ContainsFunc(tests, func(name string) bool { return !strings.Contains(name, "E2E") })
		}},
		"e2e": {[]string{"-run", "E2E|Long$"}, func(tests []string, _ bool) bool {
			return slices.ContainsFunc(tests, func(name string) bool { return !isQuick(name) })
		}},
	}
}

func isQuick(name string) bool {
	return !strings.Contains(name, "E2E") && !strings.HasSuffix(name, "Long")
}

// packages returns the packages of the module in a folder that the tier runs, as ./path.
func (r *tier) packages(root string) ([]string, error) {
	testNames := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
	shares := regexp.MustCompile(`(?m)^\s+go (?:func\b|[\w.]+\()|\.Go\(|\bsync\.(?:RW)?Mutex\b|\batomic\.[A-Z]|httptest\.New(?:TLS)?Server\(`)
	tests, concurrent := map[string][]string{}, map[string]bool{}
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if _, err := os.Stat(filepath.Join(root, name, "go.mod")); name != "." && (err == nil || d.Name() == "testdata" || d.Name()[0] == '.') {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".go"):
			return nil
		}
		text, err := fs.ReadFile(os.DirFS(root), name)
		if err != nil {
			return fmt.Errorf("read the tests: %w", err)
		}
		folder := "./" + filepath.ToSlash(filepath.Dir(name))
		concurrent[folder] = concurrent[folder] || shares.Match(text)
		if strings.HasSuffix(name, "_test.go") {
			for _, m := range testNames.FindAllSubmatch(text, -1) {
				if string(m[1]) != "TestMain" {
					tests[folder] = append(tests[folder], string(m[1]))
				}
			}
		}
		return nil
	})
	var list []string
	for folder, names := range tests {
		if r.wants(names, concurrent[folder]) {
			list = append(list, folder)
		}
	}
	slices.Sort(list)
	return list, err
}
