package host

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/ruedahq/rueda/internal/cluster"
)

// TestEndlessRows checks that an answer with rows that does not end is left.
func TestEndlessRows(t *testing.T) {
	head, err := json.Marshal(cluster.Report{Node: "a"})
	if err != nil {
		t.Fatal(err)
	}
	for name, group := range map[string]cluster.Group{"empty": {}, "large": {Data: make([]byte, 256<<10)}} {
		part, err := json.Marshal(group)
		if err != nil {
			t.Fatal(err)
		}
		f, rest, half, n := cluster.Fetched{}, maxFetched, maxFetched/2, 0
		if err := add(&f, &rest, head); err != nil || f.From.Node != "a" {
			t.Fatal(err)
		}
		for err = nil; err == nil; n++ {
			err = add(&f, &rest, part)
		}
		if !errors.Is(err, errTooMuch) || (n-1)*len(part) > maxFetched || len(group.Data) > 0 && (n-1)*len(group.Data) < fetchBytes {
			t.Errorf("%s groups: %d parts of %d bytes are taken, %v", name, n, len(part), err)
		}
		if err := add(&f, &half, []byte("{")); err == nil || errors.Is(err, errTooMuch) {
			t.Error("half an answer is taken")
		}
	}
	rest, f := maxFetched, cluster.Fetched{}
	if err := add(&f, &rest, []byte(`"`)); err == nil {
		t.Error("an answer without a report is taken")
	}
}
