package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/ruedatest"
)

// TestHistoryIsIncomplete prints rows of a journal whose first day is removed, and of one in which
// a segment is missing between others. One line on standard error says what is missing, and the
// status only if it is asked for.
func TestHistoryIsIncomplete(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		days := streamtest.Days{Folder: filepath.Join(t.TempDir(), "journal"), Closed: 1, Rows: 1500}
		days.Write(t)
		want := "lost: trades GGAL|BYMA|CI from #1 to #1500 before 2025-11-22T10:00:00Z (buffer_exceeded)\n"
		if first {
			days.RemoveFirstDay(t)
		} else {
			days.RemoveSegment(t, "2025-11-21")
			want = ""
		}
		s := ruedatest.Start(t, ruedatest.Config{Change: func(c *gateway.Config) { c.Journal.Folder = days.Folder }})
		rueda := func(args ...string) (status int, out, errs string) {
			return runWith(t.Context(), nil, append(args, "--url", s.URL)...)
		}
		for _, output := range []string{"table", "jsonl", "json", "csv"} {
			status, out, errs := rueda("trades", days.ID().String(), "--from", "2025-11-21", "-o", output)
			if want == "" {
				if want = errs; !strings.HasPrefix(want, "lost: trades GGAL|BYMA|CI from #") || !strings.Contains(want, " after 2025-11-21T10:00:00.") ||
					!strings.Contains(want, " before 2025-11-21T10:00:01.") {
					t.Errorf("a segment: %q", want)
				}
			}
			if status != command.ExitOK || strings.Count(errs, "\n") != 1 || errs != want || strings.Count(out, "\n") < 3 && output != "json" {
				t.Errorf("-o %s: %d, %q, want %q", output, status, errs, want)
			}
			required, same, errs := rueda("trades", days.ID().String(), "--from", "2025-11-21", "-o", output, "--require-complete")
			if required != command.ExitBadData || same != out || errs != "rueda: "+want {
				t.Errorf("-o %s --require-complete: %d, %q, want %q", output, required, errs, want)
			}
			all, rows, errs := rueda("trades", days.ID().String(), "--after", "0", "-o", output, "--require-complete")
			if all != command.ExitBadData || rows != out || errs != "rueda: "+want {
				t.Errorf("-o %s --after 0: %d, %q, want %q", output, all, errs, want)
			}
		}
		for _, args := range [][]string{{"--from", "2025-11-22"}, {"--after", "1500"}, {}} {
			status, out, errs := rueda(append([]string{"trades", days.ID().String(), "--require-complete"}, args...)...)
			if status != command.ExitOK || errs != "" || strings.Count(out, "\n") < 40 {
				t.Errorf("%q: %d, %q, of which nothing is missing", args, status, errs)
			}
		}
		// The first bar has N 1: nothing is known of an earlier epoch, which the first day might have had.
		status, _, errs := rueda("bars", days.ID().String(), "--from", "2025-11-01")
		if want := "lost: bars GGAL|BYMA|CI|1m before 2025-11-21T10:00:00Z (buffer_exceeded)\n"; status != command.ExitOK || first && errs != want {
			t.Errorf("bars: %d, %q", status, errs)
		}
	}
}

// TestExportIsIncomplete writes files of a day of which a segment is missing. An instrument whose
// rows are all missing has no file, and is named too.
func TestExportIsIncomplete(t *testing.T) {
	t.Parallel()
	days := streamtest.Days{Folder: filepath.Join(t.TempDir(), "journal"), Closed: 1, Rows: 1500}
	days.Write(t)
	rueda := func(date string, args ...string) (status int, out, errs, folder string) {
		folder = t.TempDir()
		status, out, errs = runWith(t.Context(), nil, append([]string{"export", "--data", days.Folder, "--out", folder, "--date", date, "--type", "trades", "--open"}, args...)...)
		return status, out, errs, folder
	}
	if status, _, errs, _ := rueda("2025-11-21", "--require-complete"); status != command.ExitOK || errs != "" {
		t.Errorf("complete: %d, %q", status, errs)
	}
	days.RemoveSegment(t, "2025-11-21")
	status, out, errs, folder := rueda("2025-11-21")
	if status != command.ExitOK || strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, "lost: trades GGAL|BYMA|CI from #") ||
		!strings.Contains(errs, " before 2025-11-21T10:00:01.") || !strings.HasSuffix(errs, ", and 1 more\n") {
		t.Errorf("%d, %q", status, errs)
	}
	name := filepath.Join(folder, "type=trades", "date=2025-11-21", "market=BYMA", "part-0.parquet")
	if !strings.HasPrefix(out, name) {
		t.Errorf("files: %q", out)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	table, err := parquet.OpenFile(file, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	text, _ := table.Lookup("rueda.lost")
	var list []struct {
		Instrument string
		From, To   uint64
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != 2 || list[0].Instrument != days.ID().String() || list[1].Instrument != days.Rare().String() ||
		uint64(table.NumRows())+list[0].To-list[0].From+1 != 1500 || list[1].From != 1 || list[1].To != 1 {
		t.Errorf("metadata: %q with %d rows", text, table.NumRows())
	}
	if status, _, errs, _ := rueda("2025-11-21", "--require-complete", "--format", "csv"); status != command.ExitBadData || !strings.HasPrefix(errs, "rueda: lost: trades ") {
		t.Errorf("required: %d, %q", status, errs)
	}
	status, out, errs, _ = rueda("2025-11-21", "--instrument", days.Rare().String())
	if want := "lost: trades RARE|BYMA|CI from #1 to #1 "; status != command.ExitOK || out != "" || !strings.HasPrefix(errs, want) || strings.Count(errs, "\n") != 1 {
		t.Errorf("no row is left: %d, %q, %q", status, out, errs)
	}
}
