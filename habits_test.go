package rueda_test

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestNoMachineNames checks that no file contains a path of one machine.
func TestNoMachineNames(t *testing.T) {
	// The parts are joined here, so that this file does not match itself.
	machine := regexp.MustCompile(`/wo` + `rk/|/ro` + `ot/|/ho` + `me/|/tmp/` + `rueda`)
	shared := ".." + "/shared"
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == ".git" || d.Name() == "build" || d.Name() == "node_modules" {
				return fs.SkipDir
			}
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if strings.Contains(string(text), "\x00") {
			return nil // a program or a recording that a user made by the commands of README
		}
		for i, line := range strings.Split(string(text), "\n") {
			if m := machine.FindString(line); m != "" {
				t.Errorf("%s:%d: %q is a place on one machine", name, i+1, m)
			}
			if strings.Contains(line, shared) && !strings.Contains(string(text), "RUEDA_TAPES") {
				t.Errorf("%s:%d: the recordings are found by RUEDA_TAPES", name, i+1)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSkips checks that every skipped test has a reason: a RUEDA_ variable, or a feature that the
// system lacks.
func TestSkips(t *testing.T) {
	skip := regexp.MustCompile(`\.Skip(f|Now)?\(`)
	reason := regexp.MustCompile(`RUEDA_|runtime\.GOOS|/proc/`)
	for _, s := range tests(t) {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			body := s.text[s.fset.Position(f.Pos()).Offset:s.fset.Position(f.End()).Offset]
			if skip.MatchString(body) && !reason.MatchString(body) {
				t.Errorf("%s: %s skips and nothing says why it may", s.at(f.Pos()), f.Name.Name)
			}
		}
	}
}

// TestSilencedLinters checks that every nolint has the linter's name and a reason.
func TestSilencedLinters(t *testing.T) {
	marker := "//no" + "lint"
	good := regexp.MustCompile(`^` + marker + `:[a-z,]+ // \S+`)
	for _, s := range sources(t) {
		for _, g := range s.file.Comments {
			for _, c := range g.List {
				if strings.HasPrefix(c.Text, marker) && !good.MatchString(c.Text) {
					t.Errorf("%s: a silenced linter has a name and a reason", s.at(c.Pos()))
				}
			}
		}
	}
}

// TestLogKeys checks that the attributes of log lines have names of one list, so that all logs can
// be searched alike.
func TestLogKeys(t *testing.T) {
	keys := strings.Fields(`action address admin again_in applied bytes count data duration error expires families family feed feeds file
		head instrument key last line lines log_level market method node panic path phase producer reason request_id restart route sequence sequencer skipped sockets stack
		started status term tls type until used user users version window`)
	levels := []string{"Debug", "Info", "Warn", "Error", "With", "Log"}
	check := func(s *source, e ast.Expr) {
		lit, ok := e.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return
		}
		if key, err := strconv.Unquote(lit.Value); err == nil && !slices.Contains(keys, key) {
			t.Errorf("%s: log key %q is not on the list", s.at(lit.Pos()), key)
		}
	}
	for _, s := range sources(t) {
		if s.test || !slices.Contains(s.imports(), "log/slog") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains(levels, sel.Sel.Name) {
				return true
			}
			first := 1 // after the message
			switch sel.Sel.Name {
			case "With":
				first = 0
			case "Log":
				first = 3 // after context and level
			}
			for i := first; i < len(call.Args); i += 2 {
				check(&s, call.Args[i])
			}
			return true
		})
	}
}

// TestAddressesOfConnections checks that the address of an accepted connection is read only where
// it is accepted. A connection that was reset has no address, and a method call on nil ends the
// process.
func TestAddressesOfConnections(t *testing.T) {
	asks := map[string]bool{
		"internal/api/rest/conn.go":            true, // the listener closes a connection without an address
		"internal/api/rest/conn_limiter.go":    true, // reads a connection of that listener
		"feed/ndjson/ndjson.go":                true, // likewise
		"internal/engine/socket/net_conn.go":   true, // compares types
		"internal/engine/tlslimit/listener.go": true, // closes a connection without an address
	}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				sel, ok := call.Fun.(*ast.SelectorExpr)
				if ok && (sel.Sel.Name == "RemoteAddr" || sel.Sel.Name == "LocalAddr") && !asks[s.name] {
					t.Errorf("%s: the address of a connection is asked for", s.at(call.Pos()))
				}
			}
			return true
		})
	}
}

// TestRatesAreInBubbles checks that a test of a rate passes time in a synctest bubble, or that
// testdata/rates.txt lists its function with a reason. On a slow machine, requests in real time
// take so long that the limiter allows more of them. It finds functions that name the answer of a
// limiter or make one.
func TestRatesAreInBubbles(t *testing.T) {
	checkListed(t, "testdata/rates.txt", "names a rate outside of a synctest bubble", namesRate)
}

// namesRate reports whether a function names a limiter or its answer outside of a synctest bubble.
func namesRate(s *source, n ast.Node) (named bool) {
	s.outsideBubbles(n, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			switch path.Base(s.packageOf(n)) + "." + n.Sel.Name {
			case "ratelimit.NewLimiter", "throttle.New":
				named = true
			}
		case *ast.Ident:
			named = named || slices.Contains([]string{"StatusTooManyRequests", "RateLimited", "TooManyFailures"}, n.Name)
		case *ast.BasicLit:
			named = named || n.Value == "429" || n.Kind == token.STRING && (strings.Contains(n.Value, "rate_limited") || strings.Contains(n.Value, "too_many_failures"))
		}
	})
	return named
}
