//go:build unix

package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Kinds of mutants.
const (
	kindCondition = "condition"
	kindStatement = "statement"
	kindConstant  = "constant"
)

// drawing is the content of a list of mutants.
type drawing struct {
	Seed        string   `json:"seed"`
	Statements  int      `json:"statements"`  // from which they are drawn
	NotCompiled int      `json:"notCompiled"` // drawn before the last one
	Mutants     []mutant `json:"mutants"`
}

// block is a block of statements of a coverage profile. Positions are lines and columns.
type block struct{ start, end [2]int }

// profile has the blocks of a file with their numbers of executions.
type profile map[string]map[block]int

// readProfiles adds coverage profiles.
func readProfiles(files []string) (profile, error) {
	p := profile{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "mode: ") {
				continue
			}
			i := strings.LastIndex(line, ":")
			var b block
			var statements, count int
			if _, err := fmt.Sscanf(line[i+1:], "%d.%d,%d.%d %d %d", &b.start[0], &b.start[1], &b.end[0], &b.end[1], &statements, &count); err != nil || i < 0 {
				return nil, fmt.Errorf("%s is not a coverage profile: %q", name, line)
			}
			file := line[:i]
			if p[file] == nil {
				p[file] = map[block]int{}
			}
			p[file][b] += count
		}
	}
	return p, nil
}

// executed reports whether the innermost block with a position was executed.
func executed(blocks map[block]int, at token.Position) bool {
	pos := [2]int{at.Line, at.Column}
	inner, count := block{}, 0
	for b, n := range blocks {
		if slices.Compare(b.start[:], pos[:]) <= 0 && slices.Compare(pos[:], b.end[:]) < 0 && slices.Compare(b.start[:], inner.start[:]) > 0 {
			inner, count = b, n
		}
	}
	return count > 0
}

// statement is a statement with the mutants that it allows, by kind.
type statement struct {
	key   string
	kinds [][]mutant
}

// statements returns the executed statements of product code that allow a mutant.
func (t *tree) statements(p profile) ([]statement, error) {
	var all []statement
	for _, pkg := range t.packages {
		if pkg.support {
			continue
		}
		for _, base := range pkg.GoFiles {
			if blocks := p[pkg.ImportPath+"/"+base]; blocks != nil {
				list, err := t.statementsOf(path.Join(t.rel(pkg.ImportPath), base), blocks)
				if err != nil {
					return nil, err
				}
				all = append(all, list...)
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the profiles have no executed statement of %s", t.module)
	}
	return all, nil
}

func (t *tree) statementsOf(name string, blocks map[block]int) ([]statement, error) {
	text, err := os.ReadFile(filepath.Join(t.dir, name))
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments)
	if err != nil || ast.IsGenerated(file) {
		return nil, err
	}
	var all []statement
	for _, s := range listed(file) {
		at := fset.PositionFor(s.Pos(), false)
		if !executed(blocks, at) {
			continue
		}
		made := statement{key: fmt.Sprintf("%s:%d:%d", name, at.Line, at.Column)}
		changes(s, func(kind string, n ast.Node, change func(old string) string) {
			from, to := fset.PositionFor(n.Pos(), false), fset.PositionFor(n.End(), false)
			m := mutant{File: name, Line: from.Line, Column: from.Column, Kind: kind, Old: string(text[from.Offset:to.Offset])}
			m.New, m.Func = change(m.Old), funcName(fset, file, m.Line)
			m.setContext(strings.Split(string(text), "\n"))
			if n := len(made.kinds); n > 0 && made.kinds[n-1][0].Kind == kind {
				made.kinds[n-1] = append(made.kinds[n-1], m)
			} else {
				made.kinds = append(made.kinds, []mutant{m})
			}
		})
		if made.kinds != nil {
			all = append(all, made)
		}
	}
	return all, nil
}

// listed returns the statements of blocks and cases, and the if statements after else.
func listed(file *ast.File) []ast.Stmt {
	var all []ast.Stmt
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt:
			all = append(all, n.List...)
		case *ast.CaseClause:
			all = append(all, n.Body...)
		case *ast.CommClause:
			all = append(all, n.Body...)
		case *ast.LabeledStmt:
			all = append(all, n.Stmt)
		case *ast.IfStmt:
			if e, ok := n.Else.(*ast.IfStmt); ok {
				all = append(all, e)
			}
		}
		return true
	})
	return all
}

// changes calls add for each change of a statement, without those of statements inside it, and for
// all changes of a kind one after another.
func changes(s ast.Stmt, add func(kind string, n ast.Node, change func(old string) string)) {
	negate := func(old string) string { return "!(" + old + ")" }
	drop := func(old string) string { return strings.Repeat("\n", strings.Count(old, "\n")) }
	switch s := s.(type) {
	case *ast.LabeledStmt:
		return
	case *ast.IfStmt:
		add(kindCondition, s.Cond, negate)
	case *ast.ForStmt:
		if s.Cond != nil {
			add(kindCondition, s.Cond, negate)
		}
	case *ast.AssignStmt:
		named := func(e ast.Expr) bool { id, ok := e.(*ast.Ident); return !ok || id.Name != "_" }
		if s.Tok != token.DEFINE && slices.ContainsFunc(s.Lhs, named) {
			add(kindStatement, s, drop)
		}
	case *ast.ExprStmt:
		if _, ok := s.X.(*ast.CallExpr); ok {
			add(kindStatement, s, drop)
		}
	case *ast.IncDecStmt:
		add(kindStatement, s, drop)
	case *ast.ReturnStmt:
		if len(s.Results) == 0 {
			add(kindStatement, s, drop)
		}
	}
	ast.Inspect(s, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt:
			return false
		case *ast.IfStmt:
			return n == s
		case *ast.BasicLit:
			if n.Kind == token.INT {
				add(kindConstant, n, func(old string) string { return "(" + old + " + 1)" })
				add(kindConstant, n, func(old string) string { return "(" + old + " - 1)" })
			}
		}
		return true
	})
}

// order returns a mutant of each statement, in an order that the seed determines.
func order(all []statement, seed string) []mutant {
	hash := func(s statement) [sha256.Size]byte { return sha256.Sum256([]byte(seed + "\x00" + s.key)) }
	slices.SortFunc(all, func(a, b statement) int {
		x, y := hash(a), hash(b)
		return cmp.Or(bytes.Compare(x[:], y[:]), strings.Compare(a.key, b.key))
	})
	var list []mutant
	for _, s := range all {
		h := hash(s)
		kind := s.kinds[binary.BigEndian.Uint64(h[16:])%uint64(len(s.kinds))]
		list = append(list, kind[binary.BigEndian.Uint64(h[24:])%uint64(len(kind))])
	}
	return list
}
