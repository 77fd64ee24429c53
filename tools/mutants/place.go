//go:build unix

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// contextLines is the number of lines before and after a mutant that identify its place.
const contextLines = 3

// mutant is a change of a file. Before, Lines and After are the lines of the file that it was drawn
// from; Lines has the old text.
type mutant struct {
	File   string   `json:"file"` // slash-separated, from the folder of the module
	Line   int      `json:"line"`
	Column int      `json:"column"`         // in bytes, from 1
	Func   string   `json:"func,omitempty"` // that has the statement, as funcName returns it; "": any
	Kind   string   `json:"kind"`
	Old    string   `json:"old"`
	New    string   `json:"new"`
	Before []string `json:"before"`
	Lines  []string `json:"lines"`
	After  []string `json:"after"`
}

func (m mutant) place() string { return fmt.Sprintf("%s:%d", m.File, m.Line) }

func (m *mutant) setContext(lines []string) {
	from := m.Line - 1
	to := from + strings.Count(m.Old, "\n") + 1
	m.Before = lines[max(0, from-contextLines):from]
	m.Lines = lines[from:to]
	m.After = lines[to:min(len(lines), to+contextLines)]
}

// funcName returns the function that has a line of a file, with the type of its receiver:
// "readTree", "tree.locate". It is empty outside of functions.
func funcName(fset *token.FileSet, file *ast.File, line int) string {
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || line < fset.PositionFor(f.Pos(), false).Line || line > fset.PositionFor(f.End(), false).Line {
			continue
		}
		if f.Recv == nil || len(f.Recv.List) == 0 {
			return f.Name.Name
		}
		of, _, _ := strings.Cut(types.ExprString(f.Recv.List[0].Type), "[")
		return strings.TrimPrefix(of, "*") + "." + f.Name.Name
	}
	return ""
}

// funcNames returns funcName of a file, or for a mutant without a function one that is always
// empty.
func (m mutant) funcNames(text []byte) (func(line int) string, error) {
	if m.Func == "" {
		return func(int) string { return "" }, nil
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, m.File, text, parser.SkipObjectResolution)
	return func(line int) string { return funcName(fset, file, line) }, err
}

// locate returns the line, from 1, and the file with the mutant. The line is 0 if the function of
// the mutant lacks its lines, or has less than half of the lines around them. Of several places it
// takes the one with most of these, and then the nearest.
func (t *tree) locate(m mutant) (line int, changed string, err error) {
	text, err := os.ReadFile(filepath.Join(t.dir, filepath.FromSlash(m.File)))
	if os.IsNotExist(err) {
		return 0, "", nil
	} else if err != nil {
		return 0, "", err
	}
	inFunc, err := m.funcNames(text)
	if err != nil {
		return 0, "", err
	}
	lines := strings.Split(string(text), "\n")
	best := 0
	for i := range lines[:max(0, len(lines)-len(m.Lines)+1)] {
		end := i + len(m.Lines)
		if !slices.Equal(lines[i:end], m.Lines) || inFunc(i+1) != m.Func {
			continue
		}
		score := 0
		for j, want := range slices.Concat(m.Before, m.After) {
			at := i - len(m.Before) + j
			if j >= len(m.Before) {
				at = end + j - len(m.Before)
			}
			if at >= 0 && at < len(lines) && strings.TrimSpace(lines[at]) == strings.TrimSpace(want) {
				score++
			}
		}
		near := line == 0 || abs(i+1-m.Line) < abs(line-m.Line)
		if 2*score >= len(m.Before)+len(m.After) && (score > best || score == best && near) {
			best, line = score, i+1
		}
	}
	if line == 0 {
		return 0, "", nil
	}
	from := len(strings.Join(append(lines[:line-1:line-1], ""), "\n")) + m.Column - 1
	after, ok := strings.CutPrefix(string(text)[min(from, len(text)):], m.Old)
	if !ok {
		return 0, "", fmt.Errorf("%s: column %d of the mutant does not have its old text", m.place(), m.Column)
	}
	return line, string(text[:from]) + m.New + after, nil
}

func abs(n int) int { return max(n, -n) }

// diff returns the first line of the mutant before and after the change.
func (m mutant) diff() string {
	changed, _, _ := strings.Cut(m.Lines[0][:m.Column-1]+m.New+strings.TrimPrefix(strings.Join(m.Lines, "\n")[m.Column-1:], m.Old), "\n")
	return fmt.Sprintf("    - %s\n    + %s\n", strings.TrimSpace(m.Lines[0]), strings.TrimSpace(changed))
}
