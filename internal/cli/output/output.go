// Package output prints rows on standard output: as a table for people, as JSON, as JSON lines, or
// as CSV. Text of a gateway is printed without characters that a terminal acts on.
package output

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/cli/command"
	"github.com/ruedahq/rueda/internal/spell"
)

// Formats.
const (
	asTable = "table"
	asJSON  = "json"
	asLines = "jsonl"
	asCSV   = "csv"
)

// Options has the flag that chooses the format.
type Options struct{ format string }

// Flags adds the flag to a command.
func (o *Options) Flags(cmd *cobra.Command) {
	formats := []string{asTable, asJSON, asLines, asCSV}
	cmd.Flags().StringVarP(&o.format, "output", "o", "", "table, json, jsonl or csv (default table on a terminal, jsonl otherwise)")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

// Open returns a writer of rows with these columns. An unknown format is an error.
func (o *Options) Open(std command.Streams, columns ...string) (*Writer, error) {
	w := &Writer{out: std.Out, format: o.format, columns: columns, paint: command.NewPaint(std.Out)}
	switch w.format {
	case "":
		w.format = asLines
		if command.IsTerminal(std.Out) {
			w.format = asTable
		}
	case asTable, asJSON, asLines, asCSV:
	default:
		return nil, command.Fail(command.ExitUsage, fmt.Errorf("--output %q is not one of table, json, jsonl, csv", o.format),
			spell.Suggest(o.format, []string{asTable, asJSON, asLines, asCSV}, "There are "))
	}
	return w, nil
}

// maxRows is how many rows of a table are aligned together. Later ones may be wider.
const maxRows = 1000

// Writer prints rows. The columns of a table are aligned, numbers at their decimal point.
type Writer struct {
	out     io.Writer
	format  string
	columns []string
	paint   command.Paint

	rows    [][]string
	widths  []int
	headed  bool // the names of the columns are printed
	objects int  // printed in JSON
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

// Time returns a time as a cell: of the local zone in a table, exactly and in UTC otherwise.
func (w *Writer) Time(t time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case w.format == asTable:
		return t.Local().Format("2006-01-02 15:04:05.000")
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000000Z")
}

// Word returns the word for people in a table, and otherwise the one of the gateway's CSV.
func (w *Writer) Word(people, csv string) string {
	if w.format == asTable {
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
	case asTable:
		if w.rows = append(w.rows, clean); len(w.rows) >= maxRows {
			return w.flush()
		}
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

// Close prints what is left.
func (w *Writer) Close() error {
	var err error
	switch {
	case w.format == asTable:
		return w.flush()
	case w.format == asJSON && w.objects == 0:
		_, err = io.WriteString(w.out, "[]\n")
	case w.format == asJSON:
		_, err = io.WriteString(w.out, "\n]\n")
	case w.format == asCSV && !w.headed:
		_, err = fmt.Fprintln(w.out, strings.Join(w.columns, ","))
	}
	return err
}

// flush prints the rows of a table.
func (w *Writer) flush() error {
	if w.widths == nil {
		w.widths = make([]int, len(w.columns))
	}
	head := slices.Clone(w.columns)
	numeric := make([]bool, len(head))
	for i := range head {
		head[i] = strings.ToUpper(strings.ReplaceAll(head[i], "_", " "))
		numeric[i] = w.alignNumbers(i)
		w.widths[i] = max(w.widths[i], utf8.RuneCountInString(head[i]))
		for _, row := range w.rows {
			w.widths[i] = max(w.widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	var b strings.Builder
	if !w.headed {
		w.headed = true
		b.WriteString(w.paint.Bold(w.line(head, numeric)) + "\n")
	}
	for _, row := range w.rows {
		b.WriteString(w.line(row, numeric) + "\n")
	}
	w.rows = nil
	_, err := io.WriteString(w.out, b.String())
	return err
}

// line returns a row with its cells padded. Numbers are at the right.
func (w *Writer) line(cells []string, numeric []bool) string {
	var b strings.Builder
	for i, c := range cells {
		pad := strings.Repeat(" ", w.widths[i]-utf8.RuneCountInString(c))
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
		if strings.Trim(c, "-.0123456789") != "" {
			return false
		}
		most, found = max(most, fraction(c)), found || c != ""
	}
	for _, row := range w.rows {
		row[column] += strings.Repeat(" ", most-fraction(row[column]))
	}
	return found
}
