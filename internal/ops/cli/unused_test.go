package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/data/replay/replaytest"
)

// ordersAlone returns a file of MBO with orders of a book that is unknown, and one with a trade of
// another instrument before them.
func ordersAlone() (unknown, traded []byte) {
	const at = 1704205800 * 1_000_000_000
	write := func(trade bool) []byte {
		w := replaytest.DBN{Version: 2}
		w.Header("GLBX.MDP3", replaytest.SchemaMBO)
		if trade {
			w.MBO(&replaytest.Record{Instrument: 7, Time: at, Receive: at, Action: 'T', Side: 'B', Price: 1e9, Size: 1, Flags: replaytest.Last})
		}
		for i := range uint64(8) {
			w.MBO(&replaytest.Record{Instrument: 5, Time: at, Receive: at, Action: 'A', Side: 'B', OrderID: i, Price: 1e9, Size: 1, Flags: replaytest.Last})
		}
		return w.Bytes
	}
	return write(false), write(true)
}

// TestNothingUsed checks that verify and replay of a file of which nothing can be used, or of which
// nothing after its last event, say so and do not end with status 0.
func TestNothingUsed(t *testing.T) {
	t.Parallel()
	unknown, traded := ordersAlone()
	empty := replaytest.DBN{Version: 2}
	empty.Header("GLBX.MDP3", replaytest.SchemaMBO)
	recorded := shortRecording()
	for _, tt := range []struct {
		name           string
		data           []byte
		verify, replay string
	}{
		{"orders of an unknown book", unknown, "none of the 8 records of the file could be used", "none of its 8 records could be played: 8 unknown_book"},
		{"no records", empty.Bytes, "none of the 0 records of the file could be used", "has no instruments at its beginning"},
		{"a recording without messages", recorded[:strings.Index(string(recorded), "\n")+1], "There was nothing to check", "none of its 1 records could be played"},
		{"orders after the last event", traded, "8 of 9 records could not be used", ""},
	} {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, tt.data, 0o600); err != nil {
			t.Fatal(err)
		}
		if status, out, errs := runWith(t.Context(), nil, "verify", file); status != 8 || !strings.Contains(out, tt.verify) {
			t.Errorf("%s: verify ends with %d:\n%s%s", tt.name, status, out, errs)
		}
		if status, out, _ := runWith(t.Context(), nil, "verify", "--json", file); status != 8 || !strings.Contains(out, `"good":false`) {
			t.Errorf("%s: verify --json ends with %d: %s", tt.name, status, out)
		}
		if tt.replay == "" {
			continue
		}
		if status, _, errs := runWith(t.Context(), nil, "replay", "--listen", "127.0.0.1:0", "--speed", "max", file); status != 8 || !strings.Contains(errs, tt.replay) {
			t.Errorf("%s: replay ends with %d: %s", tt.name, status, errs)
		}
	}
}

// TestVerifySymbols checks that verify checks the chosen instruments of a file.
func TestVerifySymbols(t *testing.T) {
	t.Parallel()
	_, traded := ordersAlone()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, traded, 0o600); err != nil {
		t.Fatal(err)
	}
	if status, out, errs := runWith(t.Context(), nil, "verify", "--symbols", "7", file); status != 0 || !strings.Contains(out, "8 filtered") || !strings.Contains(out, "1 trade,") {
		t.Errorf("%d:\n%s%s", status, out, errs)
	}
	if status, out, _ := runWith(t.Context(), nil, "verify", "--symbols", "9", file); status != 8 || !strings.Contains(out, "9 filtered") {
		t.Errorf("of none: %d:\n%s", status, out)
	}
	if err := os.WriteFile(file, shortRecording(), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := runWith(t.Context(), nil, "verify", "--symbols", "7", file); status != 2 || !strings.Contains(errs, "checked as a whole") {
		t.Errorf("of a recording: %d: %s", status, errs)
	}
}

// TestArchives checks that verify and replay name the archive that they are given.
func TestArchives(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"zip": "PK\x03\x04\x14\x00\x00\x00\x08\x00", "xz": "\xfd7zXZ\x00\x00\x04\xe6\xd6\xb4\x46", "bzip2": "BZh91AY&SY\x00\x00", "tar": strings.Repeat("\x00", 257) + "ustar\x0000",
	} {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"verify", "replay"} {
			if status, _, errs := runWith(t.Context(), nil, command, file); status != 2 || !strings.Contains(errs, "it is a "+name+" archive: unpack it first") {
				t.Errorf("%s of %s ends with %d: %s", command, name, status, errs)
			}
		}
	}
}
