// Package rueda_test checks the tables of ARCHITECTURE.md, limits of size, coding rules and the
// documents.
package rueda_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/ruedahq/rueda"

// Limits of size, in lines.
const (
	maxFile = 700 // tests too
	maxFunc = 80  // tests too, without their tables of cases
)

// planRow is a row of a table of packages: the packages of this module that a package may import,
// and the modules. All packages may import the standard library.
type planRow struct {
	imports []string // folders of this module
	outside []string // modules
	pure    bool     // no goroutine, no clock, no file, no network
}

// architecture is ARCHITECTURE.md: its districts in order, with those that each may import, and its
// packages by folder.
type architecture struct {
	districts []string // such as market and internal/engine
	below     map[string][]string
	packages  map[string]planRow
}

// plan returns the tables of ARCHITECTURE.md.
func plan(t *testing.T) architecture {
	t.Helper()
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = bytes.Cut(text, []byte("\n## Districts\n"))
	districts, text, _ := bytes.Cut(text, []byte("\n## Packages\n"))
	text, _, _ = bytes.Cut(text, []byte("\n## "))
	a := architecture{below: map[string][]string{}, packages: map[string]planRow{}}
	for _, row := range tableRows(districts) {
		name := strings.Trim(row[0], "`")
		a.districts = append(a.districts, name)
		a.below[name] = []string{}
		for short := range strings.SplitSeq(row[2], ", ") {
			if short == "-" {
				continue
			}
			i := slices.IndexFunc(a.districts, func(d string) bool { return strings.TrimPrefix(d, "internal/") == short })
			if i < 0 || a.districts[i] == name {
				t.Fatalf("ARCHITECTURE.md: district %s imports %s, which is not above it", name, short)
			}
			a.below[name] = append(a.below[name], a.districts[i])
		}
	}
	for _, section := range strings.Split("\n"+string(text), "\n### ")[1:] {
		district, table, _ := strings.Cut(section, "\n")
		if _, ok := a.below[district]; !ok {
			t.Fatalf("ARCHITECTURE.md: the packages of %s, which is not a district", district)
		}
		for _, row := range tableRows([]byte(table)) {
			dir := a.folder(district, strings.Trim(row[0], "`"))
			if _, twice := a.packages[dir]; twice {
				t.Errorf("ARCHITECTURE.md: package %s has two rows", dir)
			}
			ours, modules, _ := strings.Cut(row[2], "— ")
			r := planRow{outside: strings.Fields(modules), pure: strings.HasPrefix(row[1], "*pure* ")}
			for _, name := range strings.Fields(ours) {
				r.imports = append(r.imports, a.folder(district, name))
			}
			a.packages[dir] = r
		}
	}
	if len(a.packages) == 0 {
		t.Fatal("ARCHITECTURE.md has no packages")
	}
	return a
}

// folder returns the folder of a package as the tables of a district name it.
func (a *architecture) folder(district, name string) string {
	first, _, _ := strings.Cut(name, "/")
	switch {
	case slices.Contains(a.districts, "internal/"+first):
		return "internal/" + name
	case slices.Contains(a.districts, first):
		return name
	}
	return path.Join(district, name)
}

// district returns the district of a package, or "".
func (a *architecture) district(dir string) string {
	for _, d := range a.districts {
		if within(dir, d) {
			return d
		}
	}
	return ""
}

// tableRows returns the cells of the rows of Markdown tables, without their headings.
func tableRows(text []byte) (rows [][]string) {
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `") {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

// source is a parsed file of the module.
type source struct {
	name string // slash-separated, from the module's root
	dir  string
	test bool
	text string
	file *ast.File
	fset *token.FileSet
}

// sources returns every Go file of the module, those of other platforms too.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// isModule reports whether a folder has a module of its own.
func isModule(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}

// tests returns the Go files of all tests of the repository, in all its modules.
func tests(t *testing.T) []source {
	t.Helper()
	all, err := parse("_test.go", func(name string) bool { return name == "build" || path.Base(name) == "node_modules" })
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// parsed parses the files once for all tests, which only read them.
var parsed = sync.OnceValues(func() ([]source, error) {
	return parse(".go", func(name string) bool {
		return isModule(name) || name == "tools" || name == "bench" || name == "tests"
	})
})

// parse parses the files whose names have a suffix, except those in hidden folders, in testdata and
// in folders that skip names.
func parse(suffix string, skip func(folder string) bool) (all []source, err error) {
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" && name != talkFolder || skip(filepath.ToSlash(name))) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, suffix) {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, text, parser.ParseComments)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		all = append(all, source{
			name: name, dir: path.Dir(name), test: strings.HasSuffix(name, "_test.go"),
			text: string(text), file: file, fset: fset,
		})
		return nil
	})
	return all, err
}

func (s *source) imports() []string {
	var list []string
	for _, spec := range s.file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err == nil {
			list = append(list, p)
		}
	}
	return list
}

func (s *source) at(p token.Pos) string {
	return fmt.Sprintf("%s:%d", s.name, s.fset.Position(p).Line)
}

// TestFloorPlan compares the tables of packages with the imports of the tree.
func TestFloorPlan(t *testing.T) {
	rows := plan(t).packages
	used := map[string]map[string]bool{} // the names of its row that a package imports
	for _, s := range sources(t) {
		if s.test || len(s.file.Decls) == 0 { // only documentation
			continue
		}
		if used[s.dir] == nil {
			used[s.dir] = map[string]bool{}
		}
		r, ok := rows[s.dir]
		if !ok {
			t.Errorf("%s: package %s has no row in ARCHITECTURE.md", s.name, s.dir)
			continue
		}
		for _, p := range s.imports() {
			name, isOurs := strings.CutPrefix(p, module+"/")
			var i int
			switch {
			case isOurs:
				i = slices.Index(r.imports, name)
			case isStandard(p):
				continue
			default:
				if i = slices.IndexFunc(r.outside, func(m string) bool { return within(p, m) }); i >= 0 {
					name = r.outside[i]
				}
			}
			if used[s.dir][name] = true; i < 0 {
				t.Errorf("%s imports %s, which its row in ARCHITECTURE.md does not name", s.name, name)
			}
		}
	}
	for dir, r := range rows {
		if used[dir] == nil {
			t.Errorf("package %s is in ARCHITECTURE.md and not in the tree", dir)
			continue
		}
		for _, name := range slices.Concat(r.imports, r.outside) {
			if !used[dir][name] {
				t.Errorf("package %s does not import %s, which its row in ARCHITECTURE.md names", dir, name)
			}
		}
	}
}

func isStandard(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".")
}

// within says whether import path p belongs to module m.
func within(p, m string) bool { return p == m || strings.HasPrefix(p, m+"/") }

// TestDistrictsHaveAnOrder checks that the tables of packages import only districts that the table
// of districts allows, and that the table allows no others. A district can only name those above
// it, so that there is no circle.
func TestDistrictsHaveAnOrder(t *testing.T) {
	a := plan(t)
	used := map[string][]string{}
	for dir, r := range a.packages {
		from := a.district(dir)
		for _, name := range r.imports {
			to := a.district(name)
			if to != from && !slices.Contains(a.below[from], to) {
				t.Errorf("%s imports %s: district %s may not import %s", dir, name, from, to)
			}
			used[from] = append(used[from], to)
		}
	}
	for from, below := range a.below {
		for _, to := range below {
			if !slices.Contains(used[from], to) {
				t.Errorf("no package of %s imports one of %s, which its row names", from, to)
			}
		}
	}
}

// TestDistrictFiles checks that the documentation of each district of internal has a table of
// questions, and that the files it names exist.
func TestDistrictFiles(t *testing.T) {
	for _, district := range plan(t).districts {
		if !strings.HasPrefix(district, "internal/") {
			continue
		}
		text, err := os.ReadFile(path.Join(district, "doc.go"))
		if err != nil {
			t.Error(err)
			continue
		}
		rows := regexp.MustCompile(`(?m)^//\t.+\?  +(\S+)$`).FindAllSubmatch(text, -1)
		if len(rows) < 3 {
			t.Errorf("%s/doc.go has %d questions with files; at least 3", district, len(rows))
		}
		for _, row := range rows {
			if _, err := os.Stat(path.Join(district, string(row[1]))); err != nil {
				t.Errorf("%s/doc.go: %v", district, err)
			}
		}
	}
}

// TestSizes checks the lengths of files and functions.
func TestSizes(t *testing.T) {
	for _, s := range sources(t) {
		n := strings.Count(s.text, "\n")
		if n > maxFile {
			t.Errorf("%s has %d lines; a file has at most %d", s.name, n, maxFile)
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := s.span(f)
			if s.test {
				n -= s.tables(f)
			}
			if n > maxFunc {
				t.Errorf("%s: %s has %d lines; a function has at most %d", s.at(f.Pos()), f.Name.Name, n, maxFunc)
			}
		}
	}
}

// span returns the number of lines of a node.
func (s *source) span(n ast.Node) int {
	return s.fset.Position(n.End()).Line - s.fset.Position(n.Pos()).Line + 1
}

// tables returns the number of lines of composite literals in a function.
func (s *source) tables(f *ast.FuncDecl) int {
	total := 0
	ast.Inspect(f, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if ok {
			total += s.span(lit) - 1
		}
		return !ok
	})
	return total
}

// TestPurePackages checks that pure packages start no goroutine, read no clock and do no I/O. Their
// callers control time.
func TestPurePackages(t *testing.T) {
	rows := plan(t).packages
	clock := []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Sleep"}
	for _, s := range sources(t) {
		if s.test || !rows[s.dir].pure {
			continue
		}
		for _, p := range s.imports() {
			if p == "os" || p == "net" || p == "net/http" || p == "io/ioutil" {
				t.Errorf("%s imports %s: %s does no I/O", s.name, p, s.dir)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: %s starts no goroutine", s.at(n.Pos()), s.dir)
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, n.Sel.Name) {
					t.Errorf("%s: time.%s: %s reads no clock", s.at(n.Pos()), n.Sel.Name, s.dir)
				}
			}
			return true
		})
	}
}

// TestNoInit rejects init functions.
func TestNoInit(t *testing.T) {
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s: init function", s.at(f.Pos()))
			}
		}
	}
}

// TestNoMutableState checks the package-level variables. Allowed are errors, interface guards,
// embedded files, values that are computed once, and tables. A table is a composite literal, a
// compiled pattern or a replacer that its package never assigns to and never takes the address of.
func TestNoMutableState(t *testing.T) {
	tables := map[string]map[string]bool{} // by folder
	all := sources(t)
	for _, s := range all {
		if s.test {
			continue
		}
		for _, spec := range packageVars(s.file) {
			for i, name := range spec.Names {
				switch kindOfVar(spec, i) {
				case varTable:
					if tables[s.dir] == nil {
						tables[s.dir] = map[string]bool{}
					}
					tables[s.dir][name.Name] = true
				case varMutable:
					t.Errorf("%s: package-level variable %s", s.at(name.Pos()), name.Name)
				}
			}
		}
	}
	for _, s := range all {
		if s.test {
			continue
		}
		for _, p := range changes(s.file, tables[s.dir]) {
			t.Errorf("%s: a package-level table is changed", s.at(p))
		}
	}
}

func packageVars(f *ast.File) []*ast.ValueSpec {
	var list []*ast.ValueSpec
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR || strings.Contains(rawComment(g.Doc), "//go:embed") {
			continue
		}
		for _, spec := range g.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok && !strings.Contains(rawComment(v.Doc), "//go:embed") {
				list = append(list, v)
			}
		}
	}
	return list
}

// rawComment returns the text of a comment with its directives, which Text omits.
func rawComment(g *ast.CommentGroup) string {
	var b strings.Builder
	if g != nil {
		for _, c := range g.List {
			b.WriteString(c.Text + "\n")
		}
	}
	return b.String()
}

type varKind int

const (
	varFixed varKind = iota // an error or a guard
	varTable
	varMutable
)

func kindOfVar(spec *ast.ValueSpec, i int) varKind {
	if spec.Names[i].Name == "_" {
		return varFixed
	}
	if i >= len(spec.Values) {
		return varMutable
	}
	switch v := spec.Values[i].(type) {
	case *ast.CompositeLit:
		return varTable
	case *ast.UnaryExpr: // an error with fields
		if _, ok := v.X.(*ast.CompositeLit); ok && strings.HasPrefix(strings.ToLower(spec.Names[i].Name), "err") {
			return varTable
		}
	case *ast.CallExpr:
		sel, ok := v.Fun.(*ast.SelectorExpr)
		if !ok {
			return varMutable
		}
		x, _ := sel.X.(*ast.Ident)
		if x == nil {
			return varMutable
		}
		switch x.Name + "." + sel.Sel.Name {
		case "errors.New", "fmt.Errorf", "sync.OnceValue", "sync.OnceValues":
			return varFixed
		case "regexp.MustCompile", "strings.NewReplacer", "netip.MustParsePrefix", "crc32.MakeTable":
			return varTable
		}
	}
	return varMutable
}

// changes returns assignments to the named tables. It goes by name, so a local variable that is
// assigned to must not have the name of a table.
func changes(f *ast.File, tables map[string]bool) []token.Pos {
	var list []token.Pos
	check := func(e ast.Expr) {
		for {
			switch x := e.(type) {
			case *ast.IndexExpr:
				e = x.X
			case *ast.SelectorExpr:
				e = x.X
			case *ast.ParenExpr:
				e = x.X
			case *ast.Ident:
				if tables[x.Name] {
					list = append(list, x.Pos())
				}
				return
			default:
				return
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, e := range n.Lhs {
					check(e)
				}
			}
		case *ast.IncDecStmt:
			check(n.X)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				check(n.X)
			}
		}
		return true
	})
	return list
}

// TestDependencies requires a decision record for every module, including those of tests.
func TestDependencies(t *testing.T) {
	requires := requiredModules(t)
	records := decisions(t)
	seen := map[string]bool{}
	for _, s := range sources(t) {
		for _, p := range s.imports() {
			if isStandard(p) || within(p, module) {
				continue
			}
			m := ""
			for _, r := range requires {
				if within(p, r) && len(r) > len(m) {
					m = r
				}
			}
			if m == "" {
				t.Errorf("%s imports %s, which go.mod does not require", s.name, p)
				continue
			}
			if !seen[m] && !strings.Contains(records, "`"+m+"`") {
				t.Errorf("module %s has no record in docs/decisions", m)
			}
			seen[m] = true
		}
	}
}

func requiredModules(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, m := range regexp.MustCompile(`(?m)^(?:require\s+|\t)(\S+\.\S+/\S+) v`).FindAllStringSubmatch(string(text), -1) {
		list = append(list, m[1])
	}
	return list
}

func decisions(t *testing.T) string {
	t.Helper()
	names, err := filepath.Glob("docs/decisions/[0-9]*.md")
	if err != nil || len(names) == 0 {
		t.Fatalf("no decision records: %v", err)
	}
	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
