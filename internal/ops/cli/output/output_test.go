package output

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// TestFormats checks all formats: aligned tables, exact numbers, JSON as it was received, and no
// control characters of a gateway.
func TestFormats(t *testing.T) {
	rows := []struct {
		raw   string
		cells []string
	}{
		{`{"P":7040.5,"I":"GGAL"}`, []string{"GGAL", "7040.5", "10"}},
		{"{\"P\":98,\"I\":\"\u009bx\"}", []string{"AL\x1b[2J30\n", "98", ""}},
	}
	for format, want := range map[string]string{
		"table": "NAME       THE PRICE  SIZE\nGGAL          7040.5    10\nAL\uFFFD[2J30\uFFFD       98\n",
		"csv":   "name,the_price,size\nGGAL,7040.5,10\nAL\uFFFD[2J30\uFFFD,98,\n",
		"jsonl": "{\"P\":7040.5,\"I\":\"GGAL\"}\n{\"P\":98,\"I\":\"\\u009bx\"}\n",
		"":      "{\"P\":7040.5,\"I\":\"GGAL\"}\n{\"P\":98,\"I\":\"\\u009bx\"}\n",
		"json":  "[\n{\"P\":7040.5,\"I\":\"GGAL\"},\n{\"P\":98,\"I\":\"\\u009bx\"}\n]\n",
	} {
		var b strings.Builder
		w, err := (&Options{format: format}).Open(command.Streams{Out: &b}, "name", "the_price", "size")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if err := w.Row(json.RawMessage(r.raw), r.cells...); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil || b.String() != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", format, err, b.String(), want)
		}
	}
	for format, want := range map[string]string{"table": "NAME\n", "csv": "name\n", "json": "[]\n", "jsonl": ""} {
		var b strings.Builder
		w, err := (&Options{format: format}).Open(command.Streams{Out: &b}, "name")
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil || b.String() != want {
			t.Errorf("%s without rows: %v, %q", format, err, b.String())
		}
	}
	if _, err := (&Options{format: "jsnol"}).Open(command.Streams{}); err == nil || !strings.Contains(err.Error(), "not one of") {
		t.Error(err)
	}
}

// TestColumnsThatFit checks which columns a terminal of a width shows.
func TestColumnsThatFit(t *testing.T) {
	for width, want := range map[int]string{
		0:  "SYMBOL  PRICE  SIZE\nGGAL     10.5     1\n",
		19: "SYMBOL  PRICE  SIZE\nGGAL     10.5     1\n",
		18: "SYMBOL  PRICE\nGGAL     10.5\nnot shown: size",
		12: "SYMBOL\nGGAL\nnot shown: price, size",
		1:  "SYMBOL\nGGAL\nnot shown: price, size",
	} {
		var out, messages strings.Builder
		w := &Writer{out: &out, messages: &messages, format: Table, columns: []string{"symbol", "price", "size"}, width: width}
		if err := w.Cells("GGAL", "10.5", "1"); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got := out.String()
		if _, hidden, ok := strings.Cut(messages.String(), "narrow: "); ok {
			hidden, _, _ = strings.Cut(hidden, ".")
			got += "not shown: " + hidden
		}
		if got != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", width, got, want)
		}
	}
}

// TestEmptyColumns checks that a table names a hidden column only if a row has a value in it.
func TestEmptyColumns(t *testing.T) {
	for value, want := range map[string]string{"": "", "7": "Not shown, because the terminal is too narrow: old price. --wide prints all columns.\n"} {
		var out, messages strings.Builder
		w := &Writer{out: &out, messages: &messages, format: Table, columns: []string{"symbol", "old_price", "old_size"}, width: 8}
		for _, cell := range []string{value, ""} {
			if err := w.Cells("GGAL", cell, ""); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if messages.String() != want {
			t.Errorf("old price %q: %q", value, &messages)
		}
	}
}

// TestLongLastColumn checks that the last column is cut if it alone is too wide, and that --wide
// prints it in full.
func TestLongLastColumn(t *testing.T) {
	text := "Halts the instrument for five seconds, with a status before and after"
	for width, want := range map[int]string{
		0:  "FAULT  DESCRIPTION\nhalt   " + text + "\n",
		76: "FAULT  DESCRIPTION\nhalt   " + text + "\n",
		40: "FAULT  DESCRIPTION\nhalt   Halts the instrument for five se…\nCells that end in … are cut, because the terminal is too narrow. --wide prints them in full.\n",
		20: "FAULT\nhalt\nNot shown, because the terminal is too narrow: description. --wide prints all columns.\n",
	} {
		var out strings.Builder
		w := &Writer{out: &out, messages: &out, format: Table, columns: []string{"fault", "description"}, width: width}
		if err := errors.Join(w.Cells("halt", text), w.Close()); err != nil || out.String() != want {
			t.Errorf("%d columns: %v\n%s\nwant\n%s", width, err, out.String(), want)
		}
	}
}

// TestTimesOfToday checks that a table omits the date of today.
func TestTimesOfToday(t *testing.T) {
	now := time.Now()
	w := &Writer{format: Table, now: now}
	if got := w.Time(now); got != now.Format("15:04:05.000") {
		t.Errorf("today: %s", got)
	}
	if before := now.AddDate(0, 0, -1); w.Time(before) != before.Format("2006-01-02 15:04:05.000") {
		t.Errorf("yesterday: %s", w.Time(before))
	}
	w.format = asCSV
	if got := w.Time(now); !strings.HasSuffix(got, "Z") || !strings.HasPrefix(got, now.UTC().Format(time.DateOnly)+"T") {
		t.Errorf("CSV: %s", got)
	}
}
