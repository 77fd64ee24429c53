// Command house prints three tables about the packages of a module: the seams between them, the
// packages with one importer, and the fields that several files write. They show a reader where the
// code is hard to hold. Nothing fails on them.
//
//	go run . [folder of the module]
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/types"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/tools/go/packages"
)

func main() {
	least := flag.Int("seam", 25, "list seams of more `names`")
	files := flag.Int("files", 4, "list fields that at least so many `files` write")
	flag.Parse()
	folder := cmp.Or(flag.Arg(0), ".")
	if err := run(os.Stdout, folder, *least, *files); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, folder string, least, files int) error {
	h, err := load(folder)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "Seams of more than %d names\nnames\tuses\tpackage\tuses names of\n", least)
	seams := slices.SortedFunc(maps.Keys(h.seams), func(a, b seam) int {
		return cmp.Or(len(h.seams[b])-len(h.seams[a]), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	for _, s := range seams {
		if names := h.seams[s]; len(names) > least {
			uses := 0
			for _, n := range names {
				uses += n
			}
			fmt.Fprintf(w, "%d\t%d\t%s\t%s\n", len(names), uses, s.from, s.to)
		}
	}
	fmt.Fprintf(w, "\nPackages with one importer\npackage\timporter\n")
	for _, p := range slices.Sorted(maps.Keys(h.importers)) {
		if len(h.importers[p]) == 1 {
			fmt.Fprintf(w, "%s\t%s\n", p, h.importers[p][0])
		}
	}
	fmt.Fprintf(w, "\nFields that at least %d files write\nfiles\tfield\n", files)
	fields := slices.SortedFunc(maps.Keys(h.writers), func(a, b string) int {
		return cmp.Or(len(h.writers[b])-len(h.writers[a]), cmp.Compare(a, b))
	})
	for _, f := range fields {
		if n := len(h.writers[f]); n >= files {
			fmt.Fprintf(w, "%d\t%s\n", n, f)
		}
	}
	return w.Flush()
}

// seam is a package that uses another one.
type seam struct{ from, to string }

// house is what the tables show. Packages are named by their folders in the module.
type house struct {
	seams     map[seam]map[string]int        // uses of each name
	importers map[string][]string            // by package
	writers   map[string]map[string]struct{} // files by field
	module    string
}

// load reads the packages of the module in a folder, without tests.
func load(folder string) (*house, error) {
	list, err := packages.Load(&packages.Config{
		Dir:  folder,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedSyntax | packages.NeedDeps | packages.NeedModule,
	}, "./...")
	if err != nil {
		return nil, err
	}
	h := &house{seams: map[seam]map[string]int{}, importers: map[string][]string{}, writers: map[string]map[string]struct{}{}}
	for _, p := range list {
		for _, e := range p.Errors {
			err = errors.Join(err, e)
		}
		if p.Module != nil {
			h.module = p.Module.Path
		}
	}
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		for path := range p.Imports {
			if to, ok := h.short(path); ok {
				h.importers[to] = append(h.importers[to], h.name(p.PkgPath))
			}
		}
		for id, object := range p.TypesInfo.Uses {
			h.use(p, id, object)
		}
		for _, file := range p.Syntax {
			h.write(p, filepath.Base(p.Fset.Position(file.Package).Filename), file)
		}
	}
	return h, nil
}

// short returns the folder of a package, if it belongs to the module.
func (h *house) short(path string) (string, bool) {
	return strings.CutPrefix(path, h.module+"/")
}

func (h *house) name(path string) string {
	short, _ := h.short(path)
	return short
}

// use counts a name of another package.
func (h *house) use(p *packages.Package, id *ast.Ident, object types.Object) {
	if object.Pkg() == nil || object.Pkg() == p.Types {
		return
	}
	if _, isPackage := object.(*types.PkgName); isPackage {
		return
	}
	to, ok := h.short(object.Pkg().Path())
	if !ok {
		return
	}
	s := seam{h.name(p.PkgPath), to}
	if h.seams[s] == nil {
		h.seams[s] = map[string]int{}
	}
	h.seams[s][fmt.Sprint(id.Name, object.Pos())]++
}

// write notes the fields to which a file assigns.
func (h *house) write(p *packages.Package, file string, syntax *ast.File) {
	note := func(e ast.Expr) {
		for {
			switch x := e.(type) {
			case *ast.IndexExpr:
				e = x.X
				continue
			case *ast.ParenExpr:
				e = x.X
				continue
			case *ast.SelectorExpr:
				selected := p.TypesInfo.Selections[x]
				if selected == nil || selected.Kind() != types.FieldVal || selected.Obj().Pkg() == nil {
					return
				}
				owner := strings.TrimPrefix(types.TypeString(selected.Recv(), func(q *types.Package) string { return h.name(q.Path()) }), "*")
				field := owner + "." + selected.Obj().Name()
				if h.writers[field] == nil {
					h.writers[field] = map[string]struct{}{}
				}
				h.writers[field][h.name(p.PkgPath)+"/"+file] = struct{}{}
			}
			return
		}
	}
	ast.Inspect(syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				note(e)
			}
		case *ast.IncDecStmt:
			note(n.X)
		}
		return true
	})
}
