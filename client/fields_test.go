package client_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/client"
)

// TestEventFields checks that the guide lists the fields of each event.
func TestEventFields(t *testing.T) {
	text, err := os.ReadFile("../docs/go-client.md")
	if err != nil {
		t.Fatal(err)
	}
	_, header, _ := strings.Cut(string(text), "\nMarket data also has ")
	header, _, _ = strings.Cut(header, ".")
	for _, event := range []any{
		client.Header{}, client.Trade{}, client.Quote{}, client.BookUpdate{}, client.Status{}, client.Summary{}, client.Bar{},
		client.StateChange{}, client.Recovered{}, client.Lost{}, client.BookInvalid{}, client.Rejected{}, client.Delayed{}, client.Notice{},
	} {
		kind := reflect.TypeOf(event)
		row := header
		if kind != reflect.TypeOf(client.Header{}) {
			_, row, _ = strings.Cut(string(text), "\n| `"+kind.Name()+"` | ")
			row, _, _ = strings.Cut(row, "\n")
		}
		for _, f := range reflect.VisibleFields(kind) {
			ofHeader := kind != reflect.TypeOf(client.Header{}) && reflect.TypeOf(client.Header{}) == kind.Field(f.Index[0]).Type
			if f.IsExported() && !f.Anonymous && !ofHeader && !strings.Contains(row, "`"+f.Name+"`") {
				t.Errorf("docs/go-client.md does not list %s.%s", kind.Name(), f.Name)
			}
		}
	}
}
