package main

import (
	"regexp"
	"strings"
	"testing"
)

// TestBenchE2E runs a short measurement with nodes, and one of JetStream alone.
func TestBenchE2E(t *testing.T) {
	var out strings.Builder
	if err := bench(t.Context(), strings.Fields("-rows 20000 -time 1s -rate 5000"), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`bare +ingest [1-9]`, `nodes +ingest [1-9]`, `one process without NATS: ingest [1-9].*p50 [1-9]`, `ratios to bare: ingest \d`} {
		if !regexp.MustCompile(`(?m)^` + want).MatchString(out.String()) {
			t.Errorf("bench does not print %s:\n%s", want, out.String())
		}
	}
	t.Log("figure:\n" + out.String())
	out.Reset()
	if err := bench(t.Context(), strings.Fields("-bare -rows 20000 -time 1s -rate 5000"), &out); err != nil || strings.Contains(out.String(), "nodes") {
		t.Errorf("alone: %v\n%s", err, out.String())
	}
	if err := bench(t.Context(), strings.Fields("-sync soon"), &out); err == nil || !strings.Contains(err.Error(), "must be a duration") {
		t.Errorf("a wrong duration: %v", err)
	}
}
