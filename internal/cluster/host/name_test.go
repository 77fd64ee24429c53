package host

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/journal"
)

// TestWrongClusterName requires that the folder of a node of one cluster is refused in another one,
// with both names in the sentence.
func TestWrongClusterName(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	prepare := func(cluster string) error {
		j := journal.Config{Folder: filepath.Join(folder, "journal")}
		_, err := Prepare(Settings{Name: cluster, Node: "edge-1", NATS: []string{"nats://127.0.0.1:1"}}, &j, nil)
		return err
	}
	for range 2 {
		if err := prepare("one"); err != nil {
			t.Fatal(err)
		}
	}
	err := prepare("two")
	if !errors.Is(err, errOtherCluster) || !strings.Contains(err.Error(), `"one"`) || !strings.Contains(err.Error(), `"two"`) {
		t.Errorf("error %v", err)
	}
	if err := prepare("one"); err != nil {
		t.Errorf("after the refusal: %v", err)
	}
}
