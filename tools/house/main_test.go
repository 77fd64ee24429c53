package main

import (
	"strings"
	"testing"
)

// TestTables checks the tables of a small module, whose names, importers and writers are counted by
// hand: cart uses Price, Zero, Double and Cents of price, till uses Cart, Total and Empty of cart, and
// two files write Cart.Items.
func TestTables(t *testing.T) {
	var out strings.Builder
	if err := run(&out, "testdata/shop", 2, 2); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"Seams of more than 2 names", "names uses package uses names of", "4 6 cart price", "3 3 till cart", "",
		"Packages with one importer", "package importer", "cart till", "",
		"Fields that at least 2 files write", "files field", "2 cart.Cart.Items",
	}
	if text := strings.Join(got, "\n"); text != strings.Join(want, "\n") {
		t.Errorf("got:\n%s", text)
	}
}
