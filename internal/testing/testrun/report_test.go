package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	var out strings.Builder
	r := newReport(&out, false)
	err := r.read(strings.NewReader(`{"ImportPath":"p","Action":"build-output","Output":"p.go:1: does not compile\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"nothing of interest\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":2.5}
{"Action":"output","Package":"p","Test":"TestB/case","Output":"the reason\n"}
{"Action":"fail","Package":"p","Test":"TestB/case","Elapsed":9}
{"Action":"fail","Package":"p","Test":"TestB","Elapsed":9}
{"Action":"output","Package":"p","Test":"TestC","Output":"    p_test.go:1: a variable is not set\n"}
{"Action":"output","Package":"p","Test":"TestC","Output":"--- SKIP: TestC (0.00s)\n"}
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
		"Slowest of 2 tests:\n     9.0 s  p TestB\n     2.5 s  p TestA\n", "skipped: p TestC: p_test.go:1: a variable is not set\n", "FAILED: p TestB\n", "FAILED: p\n",
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
	r := newReport(&out, false)
	long := strings.Repeat("x", 1<<20)
	if err := r.read(strings.NewReader(`{"Action":"output","Package":"p","Output":"` + long + `"}`)); err != nil || out.String() != long {
		t.Errorf("%d bytes, %v", out.Len(), err)
	}
}

// TestRunOfNothingE2E runs go test on packages that pass without running a test.
func TestRunOfNothingE2E(t *testing.T) {
	const head = "package p\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = os.Exit\n\n"
	root := writeFiles(t, map[string]string{
		"go.mod":            "module m\n\ngo 1.25\n",
		"good/a_test.go":    head + "func TestA(*testing.T) {}\n",
		"none/a_test.go":    head + "func BenchmarkA(*testing.B) {}\n",
		"ends/a_test.go":    head + "func TestMain(*testing.M) { os.Exit(0) }\n\nfunc TestA(*testing.T) {}\n",
		"nofiles/nofile.go": "package p\n",
	})
	for name, c := range map[string]struct {
		args string
		want string // of the output; empty: the run passes
	}{
		"named package, matched":            {"-run TestA ./good", ""},
		"named package, matched by no test": {"-run TestZ ./good", "m/good: no test matches -run\n"},
		"one of two is matched":             {"-run=TestA ./good ./none", "FAILED: m/none\n"},
		"named package without -run":        {"./none ./nofiles", ""},
		"pattern":                           {"-run TestA ./good/... ./none/... ./nofiles/...", ""},
		"TestMain ends":                     {"./ends/...", "m/ends: passed and ran no test"},
		"TestMain ends, with -run":          {"-run TestA ./ends", "FAILED: m/ends\n"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"-vet=off"}, strings.Fields(c.args)...)
			var out strings.Builder
			status, err := run(options{folder: root, named: named(args)}, args, &out)
			if err != nil || (status == 0) != (c.want == "") || !strings.Contains(out.String(), c.want) {
				t.Errorf("status %d, %v; want %q in\n%s", status, err, c.want, &out)
			}
		})
	}
}
