package journal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// TestCutShort truncates a segment at many offsets while a reader has it open: the reader returns
// every row of the spans before the cut, however far it reads ahead, and then reports what is
// missing.
func TestCutShort(t *testing.T) {
	cfg := testConfig(t)
	src := newRowSource(31, 5)
	j := begin(t, cfg, src)
	src.write(j, 60_000, true)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(cfg.Folder, "*", "*"+segmentEnding))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q %v", files, err)
	}
	r, err := OpenReader(t.Context(), cfg.Folder)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	views := r.views("")
	spans, err := views[0].spans()
	if err != nil || len(spans) < 20 {
		t.Fatalf("%d spans, %v", len(spans), err)
	}
	for i := len(spans) - 1; i >= 0; i -= 3 {
		cut := spans[i].Offset + spans[i].Bytes/2
		if err := os.Truncate(files[0], cut); err != nil {
			t.Fatal(err)
		}
		n := 0
		err := r.Scan(t.Context(), ScanStart{}, nil, allKinds, func(row *Row) bool {
			if !equalRows(row, &src.rows[n]) {
				t.Fatalf("row %d is %+v, want %+v", n, row, src.rows[n])
			}
			n++
			return true
		})
		var d *Damage
		if !errors.As(err, &d) || d.Reason != record.ReasonMissing || d.Offset != spans[i].Offset {
			t.Errorf("cut at byte %d of the span at %d: %v", cut, spans[i].Offset, err)
		}
		// The position of a span is the base of its rows, which is that of the first row.
		if want := int(spans[i].Position); i > 0 && (n < want-1 || n > want) {
			t.Errorf("cut in span %d: %d rows, want those up to %d", i, n, want)
		}
	}
}
