// Package output prints rows on standard output: as a table for people, as JSON, as JSON lines, as
// CSV, or separated by tabs. A table on a terminal has the columns that fit. Text of a gateway is
// printed without characters that a terminal acts on.
package output

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// Formats.
const (
	Table   = "table"
	asJSON  = "json"
	asLines = "jsonl"
	asCSV   = "csv"
	Tabs    = "tsv" // no line of names
)

// formats are all formats, in the order of the help.
var formats = []string{Table, asJSON, asLines, asCSV, Tabs}

// Options has the flags of the output format.
type Options struct {
	// Piped is the default format without a terminal, Table or Tabs; "": JSON lines.
	Piped string

	format string
	wide   bool
	older  map[string]*bool // flags that are older than --output, by the format that they choose
}

// Flags adds the flags to a command.
func (o *Options) Flags(cmd *cobra.Command) {
	fallback := "table"
	if o.Piped != Table {
		fallback += " on a terminal, " + cmp.Or(o.Piped, asLines) + " otherwise"
	}
	cmd.Flags().StringVarP(&o.format, "output", "o", "", strings.Join(formats[:4], ", ")+" or tsv (default "+fallback+")")
	cmd.Flags().BoolVar(&o.wide, "wide", false, "print all columns of a table, also those that do not fit")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

// Older adds a hidden flag that chooses a format, for scripts that are older than --output.
func (o *Options) Older(cmd *cobra.Command, flag, format string) {
	if o.older == nil {
		o.older = map[string]*bool{}
	}
	o.older[format] = cmd.Flags().Bool(flag, false, "the same as --output "+format)
	_ = cmd.Flags().MarkHidden(flag) // the flag exists
}

// Format returns the format that was chosen, or is the default.
func (o *Options) Format(std command.Streams) string {
	for format, chosen := range o.older {
		if *chosen && o.format == "" {
			return format
		}
	}
	switch {
	case o.format != "":
		return o.format
	case command.IsTerminal(std.Out):
		return Table
	}
	return cmp.Or(o.Piped, asLines)
}

// Open returns a writer of rows with these columns. An unknown format is an error.
func (o *Options) Open(std command.Streams, columns ...string) (*Writer, error) {
	w := &Writer{out: std.Out, messages: std.Err, format: o.Format(std), columns: columns, paint: command.NewPaint(std.Out), now: time.Now()}
	if !slices.Contains(formats, w.format) {
		return nil, command.Fail(command.ExitUsage, fmt.Errorf("--output %q is not one of %s", o.format, strings.Join(formats, ", ")), "")
	}
	if !o.wide {
		w.width, _ = command.Size(std.Out)
	}
	return w, nil
}

// maxRows is how many rows of a table are aligned together. Later ones may be wider.
const maxRows = 1000

// Writer prints rows. The columns of a table are aligned, numbers at their decimal point.
type Writer struct {
	out      io.Writer
	messages io.Writer // for what is not data
	format   string
	columns  []string
	paint    command.Paint
	now      time.Time
	width    int // of the terminal; 0: no limit

	rows    [][]string
	widths  []int
	filled  []bool // columns with a value in a row
	shown   int    // columns of the table that fit
	cut     int    // width of the last column if it is cut; 0: it is not
	headed  bool   // the names of the columns are printed
	objects int    // printed in JSON
}

// Row prints a row: v as JSON, which may be a json.RawMessage, or the cells of the columns.
func (w *Writer) Row(v any, cells ...string) error {
	if err := w.Object(v); err != nil {
		return err
	}
	return w.Cells(cells...)
}

// Object prints v if the format is JSON.
func (w *Writer) Object(v any) error {
	if w.format != asJSON && w.format != asLines {
		return nil
	}
	text, err := json.Marshal(v)
	if raw, ok := v.(json.RawMessage); ok && err == nil && !bytes.ContainsAny(raw, "\r\n") {
		text = raw // as it was received
	}
	if err != nil {
		return err
	}
	text = command.EscapeControls(text)
	before, after := "", "\n"
	if w.format == asJSON {
		before, after = ",\n", ""
		if w.objects == 0 {
			before = "[\n"
		}
	}
	w.objects++
	_, err = fmt.Fprintf(w.out, "%s%s%s", before, text, after)
	return err
}

// Time returns a time as a cell. In a table it is in the local zone, and has no date if it is
// today. In other formats it is exact and in UTC.
func (w *Writer) Time(t time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case w.format == Table && t.Local().Format(time.DateOnly) == w.now.Format(time.DateOnly):
		return t.Local().Format("15:04:05.000")
	case w.format == Table:
		return t.Local().Format("2006-01-02 15:04:05.000")
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000000Z")
}

// Word returns the word for people in a table, and otherwise the one of the gateway's CSV.
func (w *Writer) Word(people, csv string) string {
	if w.format == Table {
		return people
	}
	return csv
}

// Cells prints a row of a table or of CSV.
func (w *Writer) Cells(cells ...string) error {
	clean := make([]string, len(w.columns))
	copy(clean, cells)
	for i, c := range clean {
		clean[i] = strings.NewReplacer("\n", "\uFFFD", "\t", "\uFFFD").Replace(command.Printable(c))
	}
	switch w.format {
	case Table:
		if w.rows = append(w.rows, clean); len(w.rows) >= maxRows {
			return w.Flush()
		}
	case Tabs:
		_, err := fmt.Fprintln(w.out, strings.Join(clean, "\t"))
		return err
	case asCSV:
		c := csv.NewWriter(w.out)
		if !w.headed {
			w.headed = true
			_ = c.Write(w.columns) // Flush reports errors
		}
		_ = c.Write(clean)
		c.Flush()
		return c.Error()
	}
	return nil
}

// Started reports whether a row was written.
func (w *Writer) Started() bool { return w.objects > 0 || w.headed || len(w.rows) > 0 }

// Close prints what is left.
func (w *Writer) Close() error {
	var err error
	switch {
	case w.format == Table:
		if err = w.Flush(); w.cut > 0 {
			fmt.Fprintln(w.messages, "Cells that end in … are cut, because the terminal is too narrow. --wide prints them in full.")
		} else if hidden := w.hidden(); hidden != "" {
			fmt.Fprintf(w.messages, "Not shown, because the terminal is too narrow: %s. --wide prints all columns.\n", hidden)
		}
	case w.format == asJSON && w.objects == 0:
		_, err = io.WriteString(w.out, "[]\n")
	case w.format == asJSON:
		_, err = io.WriteString(w.out, "\n]\n")
	case w.format == asCSV && !w.headed:
		_, err = fmt.Fprintln(w.out, strings.Join(w.columns, ","))
	}
	return err
}

// hidden returns the names of the columns that have values and are not shown.
func (w *Writer) hidden() string {
	var list []string
	for i, name := range w.columns[w.shown:] {
		if w.filled[w.shown+i] {
			list = append(list, strings.ReplaceAll(name, "_", " "))
		}
	}
	return strings.Join(list, ", ")
}

// Flush prints the rows of a table so far. Later rows are aligned with them, unless they are wider.
func (w *Writer) Flush() error {
	if w.format != Table || len(w.rows) == 0 && w.headed {
		return nil
	}
	if w.widths == nil {
		w.widths, w.filled = make([]int, len(w.columns)), make([]bool, len(w.columns))
	}
	head := slices.Clone(w.columns)
	numeric := make([]bool, len(head))
	for i := range head {
		head[i] = strings.ToUpper(strings.ReplaceAll(head[i], "_", " "))
		numeric[i] = w.alignNumbers(i)
		w.widths[i] = max(w.widths[i], utf8.RuneCountInString(head[i]))
		for _, row := range w.rows {
			w.widths[i] = max(w.widths[i], utf8.RuneCountInString(row[i]))
			w.filled[i] = w.filled[i] || row[i] != ""
		}
	}
	var b strings.Builder
	if !w.headed {
		w.headed, w.shown = true, w.fit()
		b.WriteString(w.paint.Bold(w.line(head, numeric)) + "\n")
	}
	for _, row := range w.rows {
		b.WriteString(w.line(row, numeric) + "\n")
	}
	w.rows = nil
	_, err := io.WriteString(w.out, b.String())
	return err
}

// leastCut is the minimum width of a cut column. With less space, the column is left out.
const leastCut = 24

// fit returns how many columns fit into the terminal, at least one. If only the last column does
// not fit, it is cut.
func (w *Writer) fit() int {
	used := 0
	for i, width := range w.widths {
		if left := w.width - used; w.width > 0 && width > left {
			if i > 0 && i == len(w.widths)-1 && left >= leastCut {
				w.cut = left
				return len(w.widths)
			}
			return max(i, 1)
		}
		used += width + 2
	}
	return len(w.widths)
}

// line returns a row with its cells padded. Numbers are at the right.
func (w *Writer) line(cells []string, numeric []bool) string {
	var b strings.Builder
	for i, c := range cells[:w.shown] {
		if i == len(w.columns)-1 && w.cut > 0 && utf8.RuneCountInString(c) > w.cut {
			c = string([]rune(c)[:w.cut-1]) + "…"
		}
		pad := strings.Repeat(" ", max(0, w.widths[i]-utf8.RuneCountInString(c)))
		if numeric[i] {
			b.WriteString(pad + c)
		} else {
			b.WriteString(c + pad)
		}
		b.WriteString("  ")
	}
	return strings.TrimRight(b.String(), " ")
}

// alignNumbers reports whether a column has only numbers, and pads their ends so that their decimal
// points are below each other.
func (w *Writer) alignNumbers(column int) bool {
	most, found := 0, false
	fraction := func(s string) int {
		if i := strings.IndexByte(s, '.'); i >= 0 {
			return len(s) - i
		}
		return 0
	}
	for _, row := range w.rows {
		c := row[column]
		if strings.Trim(c, "-.0123456789") != "" || strings.LastIndexByte(c, '-') > 0 { // a date has a minus sign inside
			return false
		}
		most, found = max(most, fraction(c)), found || c != ""
	}
	for _, row := range w.rows {
		row[column] += strings.Repeat(" ", most-fraction(row[column]))
	}
	return found
}
