//go:build unix

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestChanges checks the mutants of each form of statement.
func TestChanges(t *testing.T) {
	for code, want := range map[string]string{
		"if a > 1 {}":                     "condition a > 1: !(a > 1); constant 1: (1 + 1); constant 1: (1 - 1)",
		"if a {} else if b {}":            "condition b: !(b); condition a: !(a)",
		"for a {}":                        "condition a: !(a)",
		"for {}":                          "",
		"for i := 0; a; i++ {}":           "condition a: !(a); constant 0: (0 + 1); constant 0: (0 - 1)",
		"a = b":                           "statement a = b: ",
		"a, _ = b()":                      "statement a, _ = b(): ",
		"_ = b":                           "",
		"a := b":                          "",
		"a := 0x10":                       "constant 0x10: (0x10 + 1); constant 0x10: (0x10 - 1)",
		"a += b":                          "statement a += b: ",
		"a()":                             "statement a(): ",
		"<-a":                             "",
		"a++":                             "statement a++: ",
		"return":                          "statement return: ",
		"return a, 1.5, 'c'":              "",
		"go a()":                          "",
		"here: a()":                       "statement a(): ",
		"switch { case a: b() }":          "statement b(): ",
		"select { case <-a: b--\n }":      "statement b--: ",
		"a = func() int { return 7 }":     "constant 7: (7 + 1); constant 7: (7 - 1); statement a = func() int { return 7 }: ",
		"a(\nb,\n)":                       "statement a(\nb,\n): \n\n",
		"var a = 1":                       "constant 1: (1 + 1); constant 1: (1 - 1)",
		"for range 3 { continue }":        "constant 3: (3 + 1); constant 3: (3 - 1)",
		"if a := b[0]; a {}":              "condition a: !(a); constant 0: (0 + 1); constant 0: (0 - 1)",
		"if true { a() } else { return }": "condition true: !(true); statement a(): ; statement return: ",
	} {
		text := "package p\n\nfunc f() {\n" + code + "\n}\n"
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "", text, 0)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range listed(file) {
			changes(s, func(kind string, n ast.Node, change func(string) string) {
				old := text[fset.Position(n.Pos()).Offset:fset.Position(n.End()).Offset]
				got = append(got, kind+" "+old+": "+change(old))
			})
		}
		wanted := strings.Split(want, "; ")
		if want == "" {
			wanted = nil
		}
		slices.Sort(got)
		slices.Sort(wanted)
		if !slices.Equal(got, wanted) {
			t.Errorf("%s: %q, want %q", code, got, wanted)
		}
	}
}

// TestProfiles checks that profiles are added, and that the innermost block decides.
func TestProfiles(t *testing.T) {
	var files []string
	for i, text := range []string{
		"mode: set\na.com/b/" + strings.Repeat("d", 70_000) + ".go:1.1,2.2 1 1\na.com/b/c.go:2.1,9.2 3 1\na.com/b/c.go:4.5,5.2 1 0\na.com/b/c.go:6.1,7.1 1 0\n",
		"mode: count\na.com/b/c.go:6.1,7.1 1 7\n",
	} {
		files = append(files, filepath.Join(t.TempDir(), "cover.out"))
		if err := os.WriteFile(files[i], []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p, err := readProfiles(files)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[[2]int]bool{
		{1, 9}: false, {2, 1}: true, {4, 4}: true, {4, 5}: false, {5, 1}: false, {5, 2}: true, {6, 3}: true, {9, 2}: false,
	} {
		if got := executed(p["a.com/b/c.go"], token.Position{Line: at[0], Column: at[1]}); got != want {
			t.Errorf("%v: %t", at, got)
		}
	}
	if err := os.WriteFile(files[0], []byte("nothing\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readProfiles(files[:1]); err == nil {
		t.Error("a file that is not a profile has no error")
	}
}

// TestStatements checks that only executed product code has mutants.
func TestStatements(t *testing.T) {
	places := map[string]bool{}
	for _, m := range allMutants(t) {
		places[m.place()] = true
	}
	want := map[string]bool{"cart/cart.go:8": true, "cart/cart.go:9": true, "stock/stock.go:9": true, "stock/stock.go:10": true}
	for _, line := range []int{6, 7, 8, 9, 16, 17, 18, 19, 26, 29, 30} {
		want[fmt.Sprintf("price/price.go:%d", line)] = true
	}
	if !reflect.DeepEqual(places, want) {
		t.Errorf("mutants at %v, want %v", places, want)
	}
}

// TestDraw checks that the seed determines the draw, that a larger draw begins with a smaller one,
// that all statements are drawn, and that mutants that do not compile are counted.
func TestDraw(t *testing.T) {
	r := shop(t, settings{})
	drawn := func(seed string, n int) drawing {
		d, err := draw(t.Context(), r, options{cover: coverage(t), seed: seed, n: n})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	all := drawn("a", 100)
	if n := len(all.Mutants); n+1 != all.Statements || all.NotCompiled != 1 {
		t.Errorf("%d mutants and %d that do not compile, of %d statements", n, all.NotCompiled, all.Statements)
	}
	if few := drawn("a", 5); !reflect.DeepEqual(few.Mutants, all.Mutants[:5]) {
		t.Errorf("a draw of 5 is not the beginning of a draw of 100: %v", few.Mutants)
	}
	if other := drawn("b", 5); reflect.DeepEqual(other.Mutants, all.Mutants[:5]) {
		t.Error("another seed draws the same mutants")
	}
	if _, err := draw(t.Context(), r, options{cover: coverage(t) + ".none", seed: "a", n: 1}); err == nil {
		t.Error("a draw without a profile has no error")
	}
}

// TestNotCompiled checks that a change that does not compile is found.
func TestNotCompiled(t *testing.T) {
	m := find(t, "price/price.go", "fee = max(fee, n)", kindStatement)
	m.New = "fee = none"
	if _, _, status, err := shop(t, settings{}).prepare(t.Context(), m); status != notCompile || err != nil {
		t.Errorf("%q, %v", status, err)
	}
}

// TestLocate checks how the place of a mutant is found in a changed file.
func TestLocate(t *testing.T) {
	const file = "a\nb\nx++\nc\nd\n\n1\n2\nx++\n3\n4"
	m := mutant{File: "f.go", Line: 3, Column: 1, Kind: kindStatement, Old: "x++"}
	m.setContext(strings.Split(file, "\n"))
	for _, c := range []struct {
		name, text, want string
	}{
		{"unchanged", file, "a\nb\n\nc\nd\n\n1\n2\nx++\n3\n4"},
		{"moved", "new\nnew\nnew\nnew\nnew\n" + file, "new\nnew\nnew\nnew\nnew\na\nb\n\nc\nd\n\n1\n2\nx++\n3\n4"},
		{"swapped", "1\n2\nx++\n3\n4\n\na\nb\nx++\nc\nd\n", "1\n2\nx++\n3\n4\n\na\nb\n\nc\nd\n"},
		{"half of the lines around it", "b\nx++\nc\nd\nother", "b\n\nc\nd\nother"},
		{"fewer lines around it", "other\nx++\nc\nother\nother", ""},
		{"other text", strings.ReplaceAll(file, "x++", "x--"), ""},
		{"repeated", "a\nb\nx++\nc\nd\n\na\nb\nx++\nc\nd\n", "a\nb\n\nc\nd\n\na\nb\nx++\nc\nd\n"},
		{"other indentation around it", " a\n\tb\nx++\n\tc\nd\n", " a\n\tb\n\n\tc\nd\n"},
		{"empty", "", ""},
	} {
		tr := &tree{dir: t.TempDir()}
		if _, got, err := tr.locate(m); got != "" || err != nil {
			t.Errorf("no file: %q, %v", got, err)
		}
		if err := os.WriteFile(filepath.Join(tr.dir, "f.go"), []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		line, got, err := tr.locate(m)
		if got != c.want || (line == 0) != (c.want == "") || err != nil {
			t.Errorf("%s: line %d, %q, %v; want %q", c.name, line, got, err, c.want)
		}
	}
}

// TestLocateInFunc checks that a mutant of a list with functions is found in its function alone,
// and one of an older list in a sibling with the same lines.
func TestLocateInFunc(t *testing.T) {
	const body = "(n int) {\n\tif n == 0 {\n\t\treturn\n\t}\n\tcount++\n}\n"
	const first, second, after = "func (a *A) f" + body, "\nfunc (b B[T]) f" + body, "\nvar g = func" + body
	const head = "package p\n\n"
	tr := &tree{dir: t.TempDir()}
	for _, c := range []struct {
		name, in, text string
		want           int
	}{
		{"both", "A.f", first + second, 7},
		{"both", "B.f", first + second, 14},
		{"both, older list", "", first + second, 7},
		{"moved", "A.f", second + first, 14},
		{"receiver is a value", "A.f", strings.Replace(first, "*", "", 1) + second, 7},
		{"deleted", "A.f", second, 0},
		{"deleted, older list", "", second, 8},
		{"renamed", "A.f", strings.Replace(first, "f(", "h(", 1), 0},
		{"no receiver", "A.f", strings.Replace(first, "(a *A) ", "", 1), 0},
		{"no receiver", "f", strings.Replace(first, "(a *A) ", "", 1), 7},
		{"outside of functions", "A.f", after, 0},
	} {
		m := mutant{File: "f.go", Line: 7, Column: 2, Kind: kindStatement, Old: "count++", Func: c.in}
		m.setContext(strings.Split(head+first, "\n"))
		if err := os.WriteFile(filepath.Join(tr.dir, "f.go"), []byte(head+c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if line, _, err := tr.locate(m); line != c.want || err != nil {
			t.Errorf("%s, %q: line %d, %v; want %d", c.name, c.in, line, err, c.want)
		}
	}
	if m := find(t, "cart/cart.go", "sum +=", kindStatement); m.Func != "Sum" {
		t.Errorf("the function of a drawn mutant is %q", m.Func)
	}
}

// TestWithTests checks which packages have tests for arguments of go test.
func TestWithTests(t *testing.T) {
	tr := &tree{packages: map[string]*pkg{
		"none": {}, "unit": {tests: []string{"TestA", "FuzzB"}}, "both": {tests: []string{"TestA", "TestAE2E"}}, "e2e": {tests: []string{"TestE2E"}},
	}}
	for args, want := range map[string]string{
		"":                      "both e2e unit",
		"-race -skip E2E":       "both unit",
		"-run E2E -tags=x":      "both e2e",
		"--run=^TestA$ -v":      "both unit",
		"-run TestA/sub":        "both unit",
		"-skip TestA/sub":       "both e2e unit",
		"-skip=. -run Test":     "",
		"-run Fuzz -count 1":    "unit",
		"-skip ^Test -skip E2E": "both unit",
	} {
		got, err := tr.withTests([]string{"both", "e2e", "none", "unit"}, args)
		if strings.Join(got, " ") != want || err != nil {
			t.Errorf("%s: %q, %v; want %s", args, got, err, want)
		}
	}
}
