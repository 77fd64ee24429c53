package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
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
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("read the tests: %w", err)
		}
		folder := "./" + filepath.ToSlash(filepath.Dir(name))
		concurrent[folder] = concurrent[folder] || shares(file)
		if strings.HasSuffix(name, "_test.go") {
			tests[folder] = append(tests[folder], testNames(file)...)
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

// testNames returns the tests, fuzz tests and examples of a file.
func testNames(file *ast.File) (names []string) {
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || f.Name.Name == "TestMain" {
			continue
		}
		for _, prefix := range []string{"Test", "Fuzz", "Example"} {
			rest, ok := strings.CutPrefix(f.Name.Name, prefix)
			if first, _ := utf8.DecodeRuneInString(rest); ok && !unicode.IsLower(first) {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

// shares reports whether a file starts goroutines, directly or by a timer, a context, a group, a
// server or parallel tests, or has state that goroutines share.
func shares(file *ast.File) (found bool) {
	paths := map[string]string{} // by name in the file
	for _, spec := range file.Imports {
		p, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
		if spec.Name != nil {
			paths[spec.Name.Name] = p
		} else {
			paths[path.Base(p)] = p
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.SelectorExpr:
			from := ""
			if x, ok := n.X.(*ast.Ident); ok {
				from = paths[x.Name]
			}
			switch name := n.Sel.Name; name {
			case "AfterFunc", "Go", "Parallel":
				found = true
			case "Mutex", "RWMutex":
				found = found || from == "sync"
			case "NewServer", "NewTLSServer":
				found = found || from == "net/http/httptest"
			default:
				found = found || from == "sync/atomic"
			}
		}
		return !found
	})
	return found
}
