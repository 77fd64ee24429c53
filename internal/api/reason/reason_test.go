package reason

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/wire"
)

// wireReasons returns the values of the constants of type Reason in package wire.
func wireReasons(t *testing.T) (words []string) {
	t.Helper()
	files, err := filepath.Glob("../../../wire/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) == 0 {
				return true
			}
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Reason" {
				text, _ := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				words = append(words, text)
			}
			return true
		})
	}
	return words
}

// TestEveryReasonIsDescribed checks that each word of package wire has one entry with a cause and a
// remedy in whole sentences, and that each entry is used somewhere.
func TestEveryReasonIsDescribed(t *testing.T) {
	words := wireReasons(t)
	if len(words) < 40 {
		t.Fatalf("found %d words", len(words))
	}
	for _, w := range words {
		if _, ok := Of(wire.Reason(w)); !ok {
			t.Errorf("%s is not described", w)
		}
	}
	seen := map[wire.Reason]bool{}
	for _, e := range All() {
		if seen[e.Word] {
			t.Errorf("%s is described twice", e.Word)
		}
		seen[e.Word] = true
		for _, text := range []string{e.Cause, e.Remedy} {
			if !strings.HasSuffix(text, ".") || strings.ToUpper(text[:1]) != text[:1] {
				t.Errorf("%s: not a sentence: %q", e.Word, text)
			}
		}
		if e.Status == 0 && !e.Socket && !e.Warning && !e.Lost {
			t.Errorf("%s is used nowhere", e.Word)
		}
		if (e.Status != 0) != (e.Msg != "") || e.Status != 0 && (e.Status < 400 || e.Status > 599) {
			t.Errorf("%s: status %d with %q", e.Word, e.Status, e.Msg)
		}
	}
	for _, e := range All() {
		cause, remedy := Spanish(e.Word)
		for _, text := range []string{cause, remedy} {
			if !strings.HasSuffix(text, ".") || strings.ToUpper(text[:1]) != text[:1] {
				t.Errorf("%s: not a sentence in Spanish: %q", e.Word, text)
			}
		}
	}
	if len(spanish) != len(entries) {
		t.Errorf("%d reasons, %d in Spanish", len(entries), len(spanish))
	}
	if _, ok := Of("no_such_reason"); ok {
		t.Error("a word that does not exist is described")
	}
}

// TestSocketReasons checks that the entries of stream errors are those of the socket's table.
func TestSocketReasons(t *testing.T) {
	internal := wire.Internal.Socket()
	for _, e := range All() {
		if inTable := e.Word == wire.Internal || e.Word.Socket() != internal; inTable != e.Socket {
			t.Errorf("%s: in the socket's table %v, in the entry %v", e.Word, inTable, e.Socket)
		}
	}
}

// TestOrder checks that the words of REST come first, by status.
func TestOrder(t *testing.T) {
	last := 0
	for _, e := range All() {
		status := e.Status
		if status == 0 {
			status = 1000
		}
		if status < last {
			t.Errorf("%s is after a word of status %d", e.Word, last)
		}
		last = status
	}
	got := Words(func(e Entry) bool { return e.Lost })
	if want := []string{"forbidden", "epoch_changed", "buffer_exceeded", "ahead"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
