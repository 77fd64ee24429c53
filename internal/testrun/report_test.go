package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	err := r.read(strings.NewReader(`{"ImportPath":"p","Action":"build-output","Output":"p.go:1: does not compile\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"nothing of interest\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":2.5}
{"Action":"output","Package":"p","Test":"TestB/case","Output":"the reason\n"}
{"Action":"fail","Package":"p","Test":"TestB/case","Elapsed":9}
{"Action":"fail","Package":"p","Test":"TestB","Elapsed":9}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"output","Package":"p","Test":"TestD","Output":"panic: of a test without an end\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t3s\n"}
{"Action":"fail","Package":"p","Elapsed":3}
go: a line that is not JSON
`))
	if err != nil {
		t.Fatal(err)
	}
	r.summary()
	for _, want := range []string{
		"p.go:1: does not compile\n", "p: TestB/case\nthe reason\n", "panic: of a test without an end\n", "FAIL\tp\t3s\n",
		"go: a line that is not JSON\n",
		"Slowest of 2 tests:\n     9.0 s  p TestB\n     2.5 s  p TestA\n", "skipped: p TestC\n", "FAILED: p TestB\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "interest") || strings.Contains(out.String(), "RUN") {
		t.Errorf("the report shows output of a test that passed:\n%s", &out)
	}
}

// TestReportOfLongLines reads a line that is longer than a scanner takes by default.
func TestReportOfLongLines(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	long := strings.Repeat("x", 1<<20)
	if err := r.read(strings.NewReader(`{"Action":"output","Package":"p","Output":"` + long + `"}`)); err != nil || out.String() != long {
		t.Errorf("%d bytes, %v", out.Len(), err)
	}
}
