package docsite

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTextScriptE2E runs the functions of text.js that have no page: mask hides tokens and
// passwords in every form, and indent keeps each digit of a number.
func TestTextScriptE2E(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("RUEDA_REQUIRE_ALL") != "" {
			t.Fatalf("%v, and RUEDA_REQUIRE_ALL wants this test", err)
		}
		t.Skipf("%v: the scripts of the pages are not run (RUEDA_REQUIRE_ALL makes this a failure)", err)
	}
	const jwt = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.s1gn4ture-_w"
	cases := []struct{ function, text, want string }{
		{"mask", `{"access_token":"abc","expires_in":3}`, `{"access_token":"••••","expires_in":3}`},
		{"mask", `{"refresh_token" : "a\"b\\", "n":1}`, `{"refresh_token" : "••••", "n":1}`},
		{"mask", `{"action":"auth_token","token":"x"}`, `{"action":"auth_token","token":"••••"}`},
		{"mask", `{"password":"a","new_password":"b","otp":"123456"}`, `{"password":"••••","new_password":"••••","otp":"••••"}`},
		{"mask", `Bearer ` + jwt + `!`, `Bearer ••••e-_w!`},
		{"mask", `{"type":"T","P":7049.5}`, `{"type":"T","P":7049.5}`},
		{"indent", `{"a":[1.10,12345678901234567890],"b":{},"c":[],"d":"{\"x\":[1,2]}"}`,
			"{\n  \"a\": [\n    1.10,\n    12345678901234567890\n  ],\n  \"b\": {},\n  \"c\": [],\n  \"d\": \"{\\\"x\\\":[1,2]}\"\n}"},
		{"indent", `null`, `null`},
	}
	source, err := assets.ReadFile("static/text.js")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	program := `import * as text from "./text.mjs";
import { readFileSync } from "node:fs";
const cases = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(cases.map(([name, input]) => text[name](input))));`
	for name, content := range map[string]string{"text.mjs": string(source), "main.mjs": program} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var input [][2]string
	for _, c := range cases {
		input = append(input, [2]string{c.function, c.text})
	}
	text, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), node, "main.mjs")
	run.Dir, run.Stdin = folder, strings.NewReader(string(text))
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var got []string
	if err := json.Unmarshal(out, &got); err != nil || len(got) != len(cases) {
		t.Fatalf("%v: %s", err, out)
	}
	for i, c := range cases {
		if got[i] != c.want {
			t.Errorf("%s(%s) is %s, want %s", c.function, c.text, got[i], c.want)
		}
	}
}
