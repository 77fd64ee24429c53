package marketdata

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/ruedahq/rueda/internal/cli/command"
	"github.com/ruedahq/rueda/wire"
)

func TestTextPrinter(t *testing.T) {
	t.Parallel()
	const header = `"S":"GGAL","I":"GGAL|BYMA|CI","N":9,"T":"2026-11-20T14:30:00.123456789Z"`
	for _, tc := range []struct{ message, want string }{
		{`{"type":"T",` + header + `,"P":7050.5,"Z":120,"G":"S"}`, "T  GGAL|BYMA|CI  7050.5 x 120  sell  #9"},
		{`{"type":"X",` + header + `,"X":"88","P":7050,"Z":120}`, "X  GGAL|BYMA|CI  trade 88 of 7050 x 120 cancelled  #9"},
		{`{"type":"C",` + header + `,"X":"88","P":7045,"Z":100,"XP":7450,"XZ":90}`, "C  GGAL|BYMA|CI  trade 88 of 7450 x 90 corrected to 7045 x 100  #9"},
		{`{"type":"Q",` + header + `,"BP":0.00000001,"BZ":3}`, "Q  GGAL|BYMA|CI  0.00000001 x 3  |  -  #9"},
		{`{"type":"O",` + header + `,"R":true,"B":[[3,1],[2,1]],"A":[[4,1],[5,1],[6,1],[7,1],[8,1],[9,1]]}`, "O  GGAL|BYMA|CI  book  3 x 1  2 x 1  |  4 x 1  5 x 1  6 x 1  7 x 1  8 x 1  ...  #9"},
		{`{"type":"H",` + header + `,"E":"halt","Y":"volatility"}`, "H  GGAL|BYMA|CI  halt (volatility)  #9"},
	} {
		v, err := wire.ParseJSON([]byte(tc.message))
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := (textPrinter{out: &b}).message(&v, nil); err != nil {
			t.Fatal(err)
		}
		if _, got, _ := strings.Cut(strings.TrimRight(b.String(), "\n"), "  "); got != tc.want {
			t.Errorf("got  %q\nwant %q", got, tc.want)
		}
	}
}

// TestTerminalIsSafe checks that text of a server or a feed cannot move the cursor, set the title
// or reorder the line, whether it is printed for people or as JSON.
func TestTerminalIsSafe(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`\u001b[2J\u001b]0;owned\u0007`, "\u009b2J", `\u009d0;owned\u009c`, "\u202e987", "a\u007fb", `a\rb`} {
		raw := []byte(`{"type":"X","S":"GGAL","I":"GGAL|BYMA|CI","N":9,"T":"2026-11-20T14:30:00.123456789Z","X":"` + text + `","P":1,"Z":1}`)
		book := []byte(`{"type":"O","N":1,"T":"` + text + `","B":[["` + text + `","1"],["1","0"]],"A":[["1","` + text + `"],["` + text + `","0"]]}`)
		v, err := wire.ParseJSON(raw)
		if err != nil {
			t.Fatal(err)
		}
		levels, err := wire.ParseJSON(book)
		if err != nil {
			t.Fatal(err)
		}
		var forPeople, asJSON strings.Builder
		if err := errors.Join((textPrinter{out: &forPeople}).message(&levels, book), (textPrinter{out: &forPeople}).message(&v, raw), (linePrinter{&asJSON}).message(&v, raw)); err != nil {
			t.Fatal(err)
		}
		if out := strings.ReplaceAll(forPeople.String(), "\n", ""); strings.ContainsFunc(out, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q was printed", out)
		}
		out := strings.TrimSuffix(asJSON.String(), "\n")
		if strings.ContainsFunc(out, unicode.IsControl) {
			t.Errorf("%q was printed as JSON", out)
		}
		if again, err := wire.ParseJSON([]byte(out)); err != nil || again.Get("X").Text != v.Get("X").Text {
			t.Errorf("%q has another text: %v", out, err)
		}
	}
}

// TestThreat43HostileRecording verifies a recording with texts that a terminal acts on, wherever a
// report repeats a text: names, reasons, epochs and definitions.
func TestThreat43HostileRecording(t *testing.T) {
	t.Parallel()
	const control = `\u001b]0;owned\u0007\u009b2J\u202e` + "\u009b2J"
	lines := strings.NewReplacer("@", control).Replace(`{"rueda":"recording","version":1,"server":"s@","began":"2026-11-20T00:00:00Z","epoch":"e@","channels":["trades"],"ids":[],"instruments":[{"instrument":"A@|B|CI"}]}
1 {"recording":"disconnected","reason":"r@"}
2 {"type":"Subscription","epoch":"f@","lost":{"trades@":{"A@":{"reason":"r@"}}}}
3 {"type":"T","I":"A@","N":1,"T":"2026-11-20T00:00:00Z","P":1,"Z":1,"X":"x@"}
`)
	name := filepath.Join(t.TempDir(), "hostile.jsonl")
	if err := os.WriteFile(name, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{name}, {name, "--json"}} {
		var stdout, stderr strings.Builder
		cmd := NewVerify(command.Streams{Out: &stdout, Err: &stderr})
		cmd.SetArgs(args)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		_ = cmd.ExecuteContext(t.Context()) // it has findings
		out := stdout.String() + stderr.String()
		if !strings.Contains(out, "owned") || strings.ContainsFunc(strings.ReplaceAll(out, "\n", ""), unicode.IsControl) {
			t.Errorf("%v printed %q", args, out)
		}
	}
}
