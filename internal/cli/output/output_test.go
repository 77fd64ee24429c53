package output

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/cli/command"
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
