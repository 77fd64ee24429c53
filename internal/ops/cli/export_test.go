package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/market"
)

// journalOf writes a journal with a trade on each date. All days except the last are closed.
func journalOf(t *testing.T, folder string, dates ...string) {
	t.Helper()
	id := market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "24hs"}
	synctest.Test(t, func(t *testing.T) {
		j, err := journal.Open(t.Context(), journal.Config{Folder: folder})
		if err != nil {
			t.Fatal(err)
		}
		number := j.Define(market.Instrument{ID: id})
		err = j.Start(func(number uint32, emit func(*journal.Row)) {
			emit(&journal.Row{Kind: journal.Numbers, Instrument: number})
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, date := range dates {
			at, err := time.Parse(time.DateOnly, date)
			if err != nil {
				t.Fatal(err)
			}
			ns := at.Add(14 * time.Hour).UnixNano()
			j.Append(&journal.Row{Kind: journal.Trade, Instrument: number, Position: uint64(i + 1), N: uint64(i + 1), Time: ns, At: ns,
				Price: 7050 * market.Scale, Size: 120 * market.Scale})
			j.Commit()
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- j.Run(ctx) }()
		synctest.Wait()
		cancel()
		if err := errors.Join(<-ended, j.Close()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestExport(t *testing.T) {
	t.Parallel()
	data, out := t.TempDir(), t.TempDir()
	journalOf(t, filepath.Join(data, "journal"), "2026-11-18", "2026-11-19", "2026-11-20")
	for _, tt := range []struct {
		args   string
		status int
		says   string // on standard output if the status is 0
	}{
		{"", 0, "type=trades/date=2026-11-19/market=BYMA/part-0.parquet  1 rows"},
		{"--date 2026-11-18 --type trades --format csv", 0, "type=trades/date=2026-11-18/market=BYMA/part-0.csv  1 rows"},
		{"--date 2026-11-18 --type trades,quotes --format ndjson --instrument GGAL|BYMA|24hs", 0, "market=BYMA/part-0.ndjson  1 rows"},
		{"--open --format csv", 0, "date=2026-11-20/"},
		{"--type depth", 0, ""},
		{"--market NYSE", 4, "there are no rows of market NYSE on 2026-11-19\n  That day has the markets BYMA."},
		{"--instrument YPFD|BYMA|24hs", 4, "there are no rows of YPFD|BYMA|24hs on 2026-11-19"},
		{"--date 2026-11-20", 1, "the day is not closed yet: a gateway closes it when the next day has begun (UTC)\n  Use --open"},
		{"--date 2026-11-17", 4, "the journal does not have this day\n  The journal has 2026-11-18 to 2026-11-20."},
		{"--date 18.11.2026", 2, "a day is written 2026-11-20"},
		{"--type trade", 2, `--type "trade" is not one of trades, quotes, bars, depth`},
		{"--type candles", 2, "is not one of trades, quotes, bars, depth"},
		{"--format parket", 2, `--format "parket" is not one of parquet, csv`},
		{"--instrument GGAL", 2, `--instrument "GGAL"`},
		{"--data nowhere", 4, "no such file or directory\n  Name the data folder of a gateway with --data."},
		{"--data " + out, 4, "Is it the folder of a journal?"},
		{"--out ", 2, "--out is missing"},
		{"--data ", 2, "--data is missing"},
	} {
		args := []string{"export", "--data", data, "--out", out}
		if tt.args != "" {
			args = append(args, strings.Split(tt.args, " ")...)
		}
		var said, talk bytes.Buffer
		status := run(t.Context(), args, command.Streams{In: strings.NewReader(""), Out: &said, Err: &talk})
		text := talk.String()
		if tt.status == 0 {
			text = said.String()
		}
		if status != tt.status || !strings.Contains(text, tt.says) {
			t.Errorf("export %s: status %d, want %d\n%s%s", tt.args, status, tt.status, said.String(), talk.String())
		}
	}
	text, err := os.ReadFile(filepath.Join(out, "type=trades", "date=2026-11-18", "market=BYMA", "part-0.csv"))
	if err != nil || !strings.Contains(string(text), "2026-11-18T14:00:00.000000000Z,2026-11-18T14:00:00.000000000Z,GGAL|BYMA|24hs,GGAL,BYMA,24hs,1,") {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestExportOfDayBetween exports a day whose folder is removed, between others.
func TestExportOfDayBetween(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	journalOf(t, filepath.Join(data, "journal"), "2026-11-16", "2026-11-17", "2026-11-18", "2026-11-19")
	if err := os.RemoveAll(filepath.Join(data, "journal", "2026-11-17")); err != nil {
		t.Fatal(err)
	}
	status, out, errs := runWith(t.Context(), nil, "export", "--data", data, "--out", t.TempDir(), "--date", "2026-11-17")
	if want := "rueda: 2026-11-17: the journal does not have this day\n  Its nearest days are 2026-11-16 and 2026-11-18.\n"; status != 4 || out != "" || errs != want {
		t.Errorf("%d, %q, %q, want %q", status, out, errs, want)
	}
}
