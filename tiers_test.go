package rueda_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"iter"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTierNames checks that each test that starts a process has E2E in its name: any command, the
// test binary again, PostgreSQL or slapd, directly or by functions of its package. make test and
// make race exclude these tests, and make e2e runs them without the race detector.
func TestTierNames(t *testing.T) {
	starts := regexp.MustCompile(`\bexec\.(Command|CommandContext|LookPath)\(|\bos\.Args\[0\]|\bpgtest\.Start\(|\bpgtest\.Cluster\b|\bldaptest\.Start\(|\btestscript\.Run\(`)
	byDir := map[string][]source{}
	for _, s := range tests(t) {
		if hasTiers(s.dir) {
			byDir[s.dir] = append(byDir[s.dir], s)
		}
	}
	found := 0
	for _, files := range byDir {
		uses := map[string][]string{} // names that a declaration of the package mentions
		reach := map[string]bool{}    // declarations that start a process
		for _, s := range files {
			for name, node := range declarations(s.file) {
				text := s.text[s.fset.Position(node.Pos()).Offset:s.fset.Position(node.End()).Offset]
				reach[name] = reach[name] || starts.MatchString(text)
				ast.Inspect(node, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.Ident:
						uses[name] = append(uses[name], n.Name)
					case *ast.SelectorExpr:
						uses[name] = append(uses[name], "."+n.Sel.Name)
						if ident, ok := n.X.(*ast.Ident); ok {
							uses[name] = append(uses[name], ident.Name)
							return false
						}
					}
					return true
				})
			}
		}
		for changed := true; changed; {
			changed = false
			for name, list := range uses {
				if !reach[name] && slices.ContainsFunc(list, func(n string) bool { return reach[n] }) {
					reach[name], changed = true, true
				}
			}
		}
		for _, s := range files {
			for _, d := range s.file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") || f.Name.Name == "TestMain" || !reach[f.Name.Name] {
					continue
				}
				if found++; !strings.Contains(f.Name.Name, "E2E") {
					t.Errorf("%s: %s starts a process and has no E2E in its name", s.at(f.Pos()), f.Name.Name)
				}
			}
		}
	}
	if found < 60 {
		t.Errorf("only %d tests start a process", found)
	}
}

// hasTiers reports whether the packages of a folder run by tier. Make runs those of other modules
// as a whole.
func hasTiers(dir string) bool {
	for ; dir != "."; dir = path.Dir(dir) {
		if isModule(dir) {
			return false
		}
	}
	return true
}

// declarations yields the functions, methods and package variables of a file with their names; a
// method has a dot before its name. Methods of two types may have the same name.
func declarations(f *ast.File) iter.Seq2[string, ast.Node] {
	return func(yield func(string, ast.Node) bool) {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					name = "." + name
				}
				if !yield(name, d) {
					return
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					v, ok := spec.(*ast.ValueSpec)
					if ok && slices.ContainsFunc(v.Names, func(name *ast.Ident) bool { return !yield(name.Name, v) }) {
						return
					}
				}
			}
		}
	}
}

// waits calls of package time let real time pass outside of a synctest bubble.
var waits = []string{"Sleep", "After", "NewTicker", "Tick", "NewTimer", "AfterFunc"}

// TestRealWaiting checks that each wait of a test is in a synctest bubble, or that
// testdata/waits.txt lists its function with a reason. A function that only bubbles call is listed
// too.
func TestRealWaiting(t *testing.T) {
	checkListed(t, "testdata/waits.txt", "waits outside of a synctest bubble", waitsForReal)
}

// checkListed checks that a list has exactly the functions and package variables of tests for which
// is returns true, each below a reason. does completes the error "FUNCTION does ...".
func checkListed(t *testing.T, list, does string, is func(*source, ast.Node) bool) {
	t.Helper()
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{} // file and function; true: seen
	reason := ""
	for i, line := range strings.Split(string(text), "\n") {
		switch fields := strings.Fields(line); {
		case len(fields) == 0 || strings.HasPrefix(line, "#"):
		case strings.HasSuffix(line, ":"):
			reason = line
		case len(fields) == 2 && reason != "":
			listed[line] = false
		default:
			t.Errorf("%s:%d: %q is not a file and a name below a reason", list, i+1, line)
		}
	}
	for _, s := range tests(t) {
		for name, node := range declarations(s.file) {
			if !is(&s, node) {
				continue
			}
			name = s.name + " " + strings.TrimPrefix(name, ".")
			if _, ok := listed[name]; !ok {
				t.Errorf("%s: this %s and is not in %s:\n%s", s.at(node.Pos()), does, list, name)
			}
			listed[name] = true
		}
	}
	for name, seen := range listed {
		if !seen {
			t.Errorf("%s lists %q, which is not one that %s", list, name, does)
		}
	}
}

// waitsForReal reports whether n waits outside of a synctest bubble, or names a function that does.
func waitsForReal(s *source, n ast.Node) (found bool) {
	s.outsideBubbles(n, func(n ast.Node) {
		if sel, ok := n.(*ast.SelectorExpr); ok && slices.Contains(waits, sel.Sel.Name) {
			found = found || s.packageOf(sel) == "time"
		}
	})
	return found
}

// TestFindsWaitsAndRates finds those that have another name or are next to a bubble.
func TestFindsWaitsAndRates(t *testing.T) {
	const imports = `package p; import ("time"; tm "time"; "testing/synctest"; st "testing/synctest"; limit "x/ratelimit"); `
	for text, want := range map[string][2]bool{ // it waits, it names a rate
		`func f() { tm.Sleep(1) }`:           {true, false},
		`func f() { s := time.Sleep; s(1) }`: {true, false},
		`var f = func() { time.Sleep(1) }`:   {true, false},
		`var a, f = 1, time.After`:           {true, false},
		`func f() { synctest.Test(t, func(*testing.T) { time.Sleep(1); _ = 429 }) }`:          {false, false},
		`func f() { st.Test(t, func(*testing.T) { tm.Sleep(1); limit.NewLimiter() }) }`:       {false, false},
		`func f() { synctest.Test(t, func(*testing.T) { }); time.Sleep(1) }`:                  {true, false},
		`func f() { synctest.Test(t, func(*testing.T) { }); _ = http.StatusTooManyRequests }`: {false, true},
		`func f() { limit.NewLimiter() }`:                                                     {false, true},
		`var f = limit.NewLimiter`:                                                            {false, true},
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "a_test.go", imports+text, 0)
		if err != nil {
			t.Fatal(err)
		}
		s, got := source{file: file}, [2]bool{}
		for _, node := range declarations(file) {
			got[0] = got[0] || waitsForReal(&s, node)
			got[1] = got[1] || namesRate(&s, node)
		}
		if got != want {
			t.Errorf("%s waits, names a rate: %v, want %v", text, got, want)
		}
	}
}

// outsideBubbles visits a node and what it contains, except the functions that synctest.Test runs.
func (s *source) outsideBubbles(n ast.Node, visit func(ast.Node)) {
	bubbles := map[ast.Node]bool{}
	ast.Inspect(n, func(n ast.Node) bool {
		if n == nil || bubbles[n] {
			return false
		}
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 2 {
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if ok && sel.Sel.Name == "Test" && s.packageOf(sel) == "testing/synctest" {
				if lit, ok := call.Args[1].(*ast.FuncLit); ok {
					bubbles[lit] = true
				}
			}
		}
		visit(n)
		return true
	})
}

// packageOf returns the import path of the package that a selector names, or "" if it names none.
func (s *source) packageOf(sel *ast.SelectorExpr) string {
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	for i, p := range s.imports() {
		name := path.Base(p)
		if spec := s.file.Imports[i]; spec.Name != nil {
			name = spec.Name.Name
		}
		if name == x.Name {
			return p
		}
	}
	return ""
}
