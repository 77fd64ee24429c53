package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestClientE2E runs all cases with the client of examples/conformance-client, which uses package
// client.
func TestClientE2E(t *testing.T) {
	t.Parallel()
	program := buildClient(t)
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			r, err := Run(t.Context(), &c, []string{program})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Faults {
				t.Error(f)
			}
			t.Logf("%s: %d trades in %v %s", c.Name, r.Trades, r.Took, r.Stderr)
		})
	}
}

// TestKillsE2E breaks connections of examples/conformance-client at random moments.
func TestKillsE2E(t *testing.T) {
	t.Parallel()
	count := 2
	if os.Getenv("RUEDA_SOAK") != "" {
		count = 50
	}
	c := Kills(count)
	r, err := Run(t.Context(), &c, []string{buildClient(t)})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Faults {
		t.Error(f)
	}
	if want := count * len(ways); r.Broken != want {
		t.Errorf("%d connections broken, want %d", r.Broken, want)
	}
	t.Logf("figure: %d connections broken, %d trades in %v %s", r.Broken, r.Trades, r.Took, r.Stderr)
}

// buildClient builds the client of examples/conformance-client.
func buildClient(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "client")
	if out, err := exec.Command("go", "build", "-o", program, "../../../examples/conformance-client").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// TestWrongClientsE2E checks that programs fail which do not do their task.
func TestWrongClientsE2E(t *testing.T) {
	t.Parallel()
	cases := Cases()
	named := func(name string) *Case {
		return &cases[slices.IndexFunc(cases, func(c Case) bool { return c.Name == name })]
	}
	for _, c := range []struct{ name, in, script, want string }{
		{"exits at once", "plain", `exit 3`, "the client has exited (exit status 3) before it printed"},
		{"prints no JSON", "revoked", `echo hello`, `it printed "hello", which is not a JSON object`},
		{"gives up", "wrong-password", `echo '{"event":"end","reason":"tired"}'`, `it gave up with the reason "tired"`},
		{"stays", "wrong-password", `echo '{"event":"end","reason":"invalid_credentials"}'; trap '' TERM; exec sleep 60`, "has not exited within"},
		{"complains", "plain", `echo no such file >&2; exit 1`, "has exited"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "client")
			if err := os.WriteFile(file, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			r, err := Run(t.Context(), named(c.in), []string{file})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(r.Faults, "\n"); !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if c.name == "complains" && r.Stderr != "no such file" {
				t.Errorf("standard error %q", r.Stderr)
			}
		})
	}
}

// TestDocument checks that docs/conformance.md lists the cases.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../../docs/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	want.WriteString("| case | what happens |\n|---|---|\n")
	for _, c := range Cases() {
		want.WriteString("| `" + c.Name + "` | " + c.What + " |\n")
	}
	if !strings.Contains(string(text), want.String()) {
		t.Errorf("docs/conformance.md does not have\n%s", want.String())
	}
}
