package rueda_test

import (
	"go/ast"
	"go/types"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// embeddable lists the packages whose types a program that imports gateway may need to name.
var embeddable = []string{"market", "wire", "feed", "broker", "broker/local"}

// TestGatewayAPI checks that all types in the exported API of gateway can be named by a program
// that imports it: they are of the standard library, of the packages above or of gateway itself.
func TestGatewayAPI(t *testing.T) {
	exported := 0
	for _, s := range sources(t) {
		if s.dir != "gateway" || s.test {
			continue
		}
		for _, d := range s.file.Decls {
			for _, node := range apiOf(d) {
				exported++
				s.checkNameable(t, node)
			}
		}
	}
	if exported < 100 {
		t.Errorf("only %d exported identifiers were found", exported)
	}
}

// apiOf returns the types and values that a declaration exports.
func apiOf(d ast.Decl) (list []ast.Node) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || isExportedType(d.Recv.List[0].Type)) {
			list = append(list, d.Type)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					list = append(list, membersOf(spec.Type)...)
				}
			case *ast.ValueSpec:
				if !slices.ContainsFunc(spec.Names, (*ast.Ident).IsExported) {
					continue
				}
				if spec.Type != nil {
					list = append(list, spec.Type)
				}
				for _, v := range spec.Values {
					list = append(list, v)
				}
			}
		}
	}
	return list
}

// isExportedType reports whether the type of a receiver is exported.
func isExportedType(e ast.Expr) bool {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	name, ok := e.(*ast.Ident)
	return ok && name.IsExported()
}

// membersOf returns the types of the exported fields or methods of a type; another type is its own
// only member.
func membersOf(e ast.Expr) (list []ast.Node) {
	var fields *ast.FieldList
	switch e := e.(type) {
	case *ast.StructType:
		fields = e.Fields
	case *ast.InterfaceType:
		fields = e.Methods
	default:
		return []ast.Node{e}
	}
	for _, f := range fields.List {
		if len(f.Names) == 0 || slices.ContainsFunc(f.Names, (*ast.Ident).IsExported) {
			list = append(list, f.Type)
		}
	}
	return list
}

// checkNameable reports the names below a node that other modules cannot use.
func (s *source) checkNameable(t *testing.T, node ast.Node) {
	t.Helper()
	imports := map[string]string{}
	for _, spec := range s.file.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		name := path.Base(p)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imports[name] = p
	}
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok {
				return true
			}
			p := imports[x.Name]
			ours, isOurs := strings.CutPrefix(p, module+"/")
			if isOurs && !slices.Contains(embeddable, ours) || !isOurs && !isStandard(p) {
				t.Errorf("%s: %s.%s is in the API of %s", s.at(n.Pos()), x.Name, n.Sel.Name, s.dir)
			}
			return false
		case *ast.Field: // without the names of parameters
			s.checkNameable(t, n.Type)
			return false
		case *ast.Ident:
			if !n.IsExported() && types.Universe.Lookup(n.Name) == nil {
				t.Errorf("%s: unexported %s is in the API of %s", s.at(n.Pos()), n.Name, s.dir)
			}
		}
		return true
	})
}

// TestEmbeddingIsSmall checks that a program that imports gateway builds no benchmark, no decoder
// of foreign formats, no command line and none of their modules.
func TestEmbeddingIsSmall(t *testing.T) {
	byDir := map[string][]string{}
	for _, s := range sources(t) {
		if !s.test {
			byDir[s.dir] = append(byDir[s.dir], s.imports()...)
		}
	}
	refused := []string{
		module + "/bench", module + "/cmd", module + "/internal/ops/cli", module + "/client",
		module + "/internal/ops/config", module + "/internal/data/recording", module + "/internal/data/verify", module + "/internal/data/replay",
		"github.com/spf13/cobra", "github.com/BurntSushi/toml", "github.com/coder/websocket", "golang.org/x/term",
	}
	reached := map[string]bool{}
	var visit func(dir, from string)
	visit = func(dir, from string) {
		if reached[dir] {
			return
		}
		reached[dir] = true
		for _, p := range byDir[dir] {
			if slices.ContainsFunc(refused, func(r string) bool { return within(p, r) }) {
				t.Errorf("%s imports %s and is reached from gateway by %s", dir, p, from)
			}
			if ours, ok := strings.CutPrefix(p, module+"/"); ok {
				visit(ours, from+" "+ours)
			}
		}
	}
	visit("gateway", "gateway")
	if len(reached) < 20 {
		t.Errorf("only %d packages were reached", len(reached))
	}
}
