package main

import (
	"strings"
	"testing"
)

// TestCatchUp runs the measurement with few rows. An edge that does not get all rows makes it fail.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run(t.Context(), []string{"catchup", "-rows", "20000", "-runs", "1"}, &out); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "20,000 rows") || strings.Count(text, "\ncatch-up bare") != 1 {
		t.Error(text)
	}
}
