package rueda_test

import (
	"go/ast"
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

// declarations returns the functions, methods and package variables of a file by name; a method has
// a dot before its name.
func declarations(f *ast.File) map[string]ast.Node {
	list := map[string]ast.Node{}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				list["."+d.Name.Name] = d
			} else {
				list[d.Name.Name] = d
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					for _, name := range v.Names {
						list[name.Name] = v
					}
				}
			}
		}
	}
	return list
}

// waits calls of package time let real time pass outside of a synctest bubble.
var waits = []string{"Sleep", "After", "NewTicker", "Tick", "NewTimer", "AfterFunc"}

// TestRealWaiting checks that each wait of a test is in a synctest bubble, or that
// testdata/waits.txt lists its function with a reason. A function that only bubbles call is listed
// too.
func TestRealWaiting(t *testing.T) {
	checkListed(t, "testdata/waits.txt", "waits outside of a synctest bubble", waitsForReal)
}

// checkListed checks that a list has exactly the functions of tests for which is returns true, each
// below a reason. does completes the error "FUNCTION does ...".
func checkListed(t *testing.T, list, does string, is func(ast.Node) bool) {
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
			t.Errorf("%s:%d: %q is not a file and a function below a reason", list, i+1, line)
		}
	}
	for _, s := range tests(t) {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil || !is(f.Body) {
				continue
			}
			name := s.name + " " + f.Name.Name
			if _, ok := listed[name]; !ok {
				t.Errorf("%s: %s %s and is not in %s:\n%s", s.at(f.Pos()), f.Name.Name, does, list, name)
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

// waitsForReal reports whether n waits outside of a synctest bubble.
func waitsForReal(n ast.Node) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, _ := sel.X.(*ast.Ident)
		switch {
		case x == nil:
		case x.Name == "synctest" && sel.Sel.Name == "Test":
			return false
		case x.Name == "time" && slices.Contains(waits, sel.Sel.Name):
			found = true
		}
		return true
	})
	return found
}
