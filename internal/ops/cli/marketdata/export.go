package marketdata

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/base/progress"
	"github.com/ruedahq/rueda/internal/data/export"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/cli/follow"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// exportFlags are the flags of export.
type exportFlags struct {
	data, out, date, market, format string
	types, instruments              []string
	open, complete                  bool
}

// NewExport returns the command export.
func NewExport(std command.Streams) *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write a day of the journal as Parquet or CSV files",
		Long: `Export writes a closed day of a journal into a folder, as tables that DuckDB, polars
and pandas read:

  OUT/type=trades/date=2026-11-20/market=BYMA/part-0.parquet

The gateway of the journal may run meanwhile. A file gets its name when it is complete,
and replaces an older one. Standard output has the names. docs/export.md has the columns
and example queries. If rows of the day are missing in the journal, the files have the others,
and a line on standard error says which are missing.

Exit status: 0 written, or the day has no rows of those types; 1 other errors, or the day is
not closed; 2 a mistake on the command line; 4 no such journal or day, or no rows of
--market or --instrument in it; 8 with --require-complete, rows are missing; 130 interrupted.`,
		Example: `  rueda export --data /var/lib/rueda --out history
  rueda export --data /var/lib/rueda --out history --date 2026-11-20 \
    --type trades,bars --format csv
  duckdb -c "from read_parquet('history/type=trades/**/*.parquet') limit 5"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), std) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.data, "data", "", "data folder of the gateway, or the folder of the journal itself")
	fl.StringVar(&f.out, "out", "", "folder of the files; created if it does not exist")
	fl.StringVar(&f.date, "date", "", "day, such as 2026-11-20, UTC (default the newest closed one)")
	fl.StringSliceVar(&f.types, "type", nil, "trades, quotes, bars, depth (default all)")
	fl.StringVar(&f.format, "format", "parquet", "parquet, csv, or ndjson: the stream's own messages")
	fl.StringVar(&f.market, "market", "", "only this market")
	fl.StringArrayVar(&f.instruments, "instrument", nil, "only this instrument; may be repeated")
	fl.BoolVar(&f.open, "open", false, "export a day that is not closed too, as far as it exists")
	fl.BoolVar(&f.complete, "require-complete", false, "end with status 8 if rows of the day are missing")
	return cmd
}

func (f *exportFlags) run(ctx context.Context, std command.Streams) (err error) {
	job, err := f.job()
	if err != nil {
		return err
	}
	j, err := openJournal(ctx, f.data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	days := j.Days()
	if job.Date == "" {
		if job.Date, err = newestDay(j.Archive, job); err != nil {
			return err
		}
	}
	var now atomic.Pointer[export.Progress]
	now.Store(&export.Progress{})
	job.Progress = func(p export.Progress) { now.Store(&p) }
	stop := command.NewProgress(&std).During(ctx, func() string {
		p := now.Load()
		return fmt.Sprintf("%s  %s %s: %s rows", progress.Bar(p.Done), p.Market, p.Type, progress.Thousands(p.Rows))
	})
	files, err := export.Day(ctx, j.Archive, job)
	stop()
	if err := listFiles(std.Out, job.Folder, files); err != nil {
		return err
	}
	if lost := lostOf(files); len(lost) > 0 {
		text := follow.LostLine(lost)
		if f.complete && err == nil {
			return command.Fail(command.ExitBadData, errors.New(text), "")
		}
		fmt.Fprintln(std.Err, command.Printable(text))
	}
	if err == nil && len(files) == 0 && (job.Market != "" || len(job.Instruments) > 0) {
		return f.noRows(j.Archive, job)
	}
	if err == nil && len(files) == 0 {
		fmt.Fprintf(std.Err, "%s has none of these rows. %s --date chooses another day.\n", job.Date, which(days, job.Date))
	}
	return exportFailure(days, job.Date, err)
}

// noRows returns the error for a day without matching rows. It names the markets of that day.
func (f *exportFlags) noRows(j *journal.Archive, job export.Job) error {
	what := strings.Join(f.instruments, ", ")
	if what == "" {
		what = "market " + job.Market
	} else if job.Market != "" {
		what += " on market " + job.Market
	}
	if len(f.types) > 0 {
		what += " of type " + strings.Join(f.types, ", ")
	}
	advice := "Write an instrument as in the catalogue: 'GGAL|BYMA|24hs'."
	day := job.Request
	day.Market, day.Instruments = "", nil
	if list := export.Markets(j, day); len(list) > 0 {
		advice = "That day has the markets " + strings.Join(list, ", ") + ". " + advice
	}
	return command.Fail(command.ExitNotFound, fmt.Errorf("there are no rows of %s on %s", what, job.Date), advice)
}

// job checks the flags.
func (f *exportFlags) job() (export.Job, error) {
	bad := func(format string, args ...any) (export.Job, error) {
		return export.Job{}, command.Fail(command.ExitUsage, fmt.Errorf(format, args...), "See rueda export --help")
	}
	job := export.Job{Folder: f.out}
	job.Date, job.Market, job.Unfinished = f.date, f.market, f.open
	switch {
	case f.data == "":
		return bad("--data is missing: the folder of the journal")
	case f.out == "":
		return bad("--out is missing: the folder of the files")
	}
	if _, err := time.Parse(time.DateOnly, f.date); f.date != "" && err != nil {
		return bad("--date %q: a day is written 2026-11-20", f.date)
	}
	var ok bool
	if job.Format, ok = export.ParseFormat(f.format); !ok {
		return bad("--format %q is not one of %s", f.format, names(export.Formats()))
	}
	for _, word := range f.types {
		t, ok := export.ParseType(word)
		if !ok {
			return bad("--type %q is not one of %s", word, names(export.Types()))
		}
		if !slices.Contains(job.Types, t) {
			job.Types = append(job.Types, t)
		}
	}
	for _, text := range f.instruments {
		id, err := market.ParseInstrumentID(text)
		if err != nil {
			return bad("--instrument %q: %w", text, err)
		}
		job.Instruments = append(job.Instruments, id)
	}
	return job, nil
}

// names returns the names of formats or types, separated by commas.
func names[T fmt.Stringer](list []T) string {
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = v.String()
	}
	return strings.Join(words, ", ")
}

// openJournal opens the journal of a data folder, or a journal folder.
func openJournal(ctx context.Context, folder string) (*journal.Reader, error) {
	j, err := journal.OpenReader(ctx, journalIn(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, command.Fail(command.ExitNotFound, err, "Name the data folder of a gateway with --data.")
	}
	return j, err
}

// journalIn returns the journal folder of a data folder, or name itself.
func journalIn(name string) string {
	inside := filepath.Join(name, "journal")
	if info, err := os.Stat(inside); err == nil && info.IsDir() {
		return inside
	}
	return name
}

// newestDay returns the newest day of which all types can be exported.
func newestDay(j *journal.Archive, job export.Job) (string, error) {
	days := j.Days()
	types := job.Types
	if len(types) == 0 {
		types = export.Types()
	}
	err := errors.New("this journal has no days")
	for _, d := range slices.Backward(days) {
		var found error
		var last time.Time // of the types that cannot be exported yet
		for _, t := range types {
			r := job.Request
			r.Date, r.Type, r.Format = d.Date, t, job.Format
			err := export.Check(j, r)
			if at, _ := r.Complete(); err != nil && (found == nil || at.After(last)) {
				found, last = err, at
			}
		}
		if found == nil {
			return d.Date, nil
		}
		err = found // of the oldest day, which is the next one that can be exported
	}
	return "", exportFailure(days, "", err)
}

// which lists the days of the journal, and those around a date that it does not have.
func which(days []journal.Day, date string) string {
	before, after := export.Around(days, date)
	switch {
	case len(days) == 1:
		return "The journal has " + days[0].Date + " alone."
	case before != "" && after != "" && !slices.ContainsFunc(days, func(d journal.Day) bool { return d.Date == date }):
		return "Its nearest days are " + before + " and " + after + "."
	}
	return "The journal has " + days[0].Date + " to " + days[len(days)-1].Date + "."
}

// exportFailure adds advice to an error of the export of a date.
func exportFailure(days []journal.Day, date string, err error) error {
	switch {
	case err != nil && len(days) == 0:
		return command.Fail(command.ExitNotFound, err, "Is it the folder of a journal? Name the data folder of a gateway with --data.")
	case errors.Is(err, export.ErrNoDay):
		return command.Fail(command.ExitNotFound, err, which(days, date))
	case errors.Is(err, export.ErrOpenDay):
		return command.Fail(command.ExitError, err, "Use --open to export it as far as it exists.")
	}
	return err
}

// lostOf returns the rows that are missing in files.
func lostOf(files []export.File) (list []client.Lost) {
	at := func(ns int64) (t time.Time) {
		if ns != 0 {
			t = time.Unix(0, ns)
		}
		return t
	}
	for _, f := range files {
		for _, l := range f.Lost {
			channel := wire.Trades
			if interval, bars := market.ParseInterval(l.Interval); bars {
				channel = wire.BarsOf(interval)
			} else if f.Type == export.Quotes {
				channel = wire.Quotes
			} else if f.Type == export.Depth {
				channel = wire.OrderBook
			}
			list = append(list, client.Lost{
				Series: stream.Series{Channel: channel, Instrument: l.Instrument}, From: l.From, To: l.To, Start: at(l.Start), End: at(l.End), Reason: export.LostReason,
			})
		}
	}
	return list
}

func listFiles(w io.Writer, folder string, files []export.File) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range files {
		if f.Rows == 0 {
			continue
		}
		name := filepath.Join(folder, filepath.FromSlash(f.Path))
		if _, err := fmt.Fprintf(table, "%s\t%d rows\t%s\n", name, f.Rows, progress.Bytes(f.Bytes)); err != nil {
			return err
		}
	}
	return table.Flush()
}
