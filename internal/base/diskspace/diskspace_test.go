package diskspace

import (
	"errors"
	"path/filepath"
	"testing"
)

func TestOf(t *testing.T) {
	free, size, err := Of(t.TempDir())
	if errors.Is(err, errors.ErrUnsupported) {
		return
	}
	if err != nil || free == 0 || free > size || size < 1<<20 {
		t.Errorf("free %d of %d, %v", free, size, err)
	}
	if _, _, err := Of(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing folder has space")
	}
}
