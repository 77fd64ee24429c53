package host

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal"
)

// TestWrongClusterName requires that the folder of a node of one cluster is refused in another one,
// with both names in the sentence. A name with which the node never connected is not in the folder.
func TestWrongClusterName(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	prepare := func(cluster string) (*Setup, error) {
		j := journal.Config{Folder: filepath.Join(folder, "journal")}
		return Prepare(Settings{Name: cluster, Node: "edge-1", NATS: []string{"nats://127.0.0.1:1"}}, &j, nil)
	}
	for _, name := range []string{"wrong", "one", "one"} {
		p, err := prepare(name)
		if err != nil {
			t.Fatal(err)
		}
		if name == "one" {
			if err := writeName(p.folder, name); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, err := prepare("two")
	if !errors.Is(err, ErrName) || !strings.Contains(err.Error(), `"one"`) || !strings.Contains(err.Error(), `"two"`) {
		t.Errorf("error %v", err)
	}
	if _, err := prepare("one"); err != nil {
		t.Errorf("after the refusal: %v", err)
	}
}

// named are the names of other clusters in a database.
type named struct {
	Members
	others []string
	err    error
}

func (n named) Claim(_ context.Context, _ string, force bool) ([]string, error) {
	if force {
		return nil, n.err
	}
	return n.others, n.err
}

// TestUnknownCluster requires that a new sequencer ends with all names if its database has only
// other clusters, unless its settings allow another one.
func TestUnknownCluster(t *testing.T) {
	t.Parallel()
	failure := errors.New("no database")
	for name, c := range map[string]struct {
		settings Settings
		old      bool
		others   []string
		err      error
		want     error
	}{
		"the first cluster":   {},
		"a wrong name":        {others: []string{"aaa", "bbb"}, want: ErrName},
		"a sequencer":         {settings: Settings{Role: roleSequencer}, others: []string{"aaa"}, want: ErrName},
		"an edge":             {settings: Settings{Role: roleEdge}, others: []string{"aaa"}},
		"another cluster":     {settings: Settings{New: true}, others: []string{"aaa"}},
		"a node that has run": {old: true, others: []string{"aaa"}},
		"no database":         {err: failure, want: failure},
	} {
		p := &Setup{settings: c.settings, isNew: !c.old}
		p.log.Cluster = "one"
		err := claimName(t.Context(), p, named{others: c.others, err: c.err})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		for _, x := range append(c.others, "one") {
			if c.want == ErrName && !strings.Contains(err.Error(), strconv.Quote(x)) {
				t.Errorf("%s: the error does not have all names: %v", name, err)
			}
		}
	}
}
