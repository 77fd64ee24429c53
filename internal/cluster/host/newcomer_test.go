package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ruedahq/rueda/internal/cluster/copying"
)

// TestChooseContinues checks that a new node continues a copy that has begun in an earlier process,
// although another node has newer rows, until that fails several times.
func TestChooseContinues(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal")
	n := &newcomer{copier: &copying.Copier{Journal: journal}, failures: map[string]int{}}
	usable := []copying.Offer{{Node: "a", Position: 1}, {Node: "b", Position: 9}}
	if got := n.choose(usable).Node; got != "b" {
		t.Errorf("without a copy it chose %s", got)
	}
	if err := os.MkdirAll(journal+".copy", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(journal+".copy", "from"), []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	for failures, want := range []string{"a", "a", "a", "b"} {
		n.failures["a"] = failures
		if got := n.choose(usable).Node; got != want {
			t.Errorf("after %d failures it chose %s", failures, got)
		}
	}
	if got := n.choose(usable[:1]).Node; got != "a" {
		t.Errorf("with one offer it chose %s", got)
	}
}
