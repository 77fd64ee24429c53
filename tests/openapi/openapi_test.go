package openapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
)

// patience is the longest time for the download of packages, or for a tool.
const patience = 10 * time.Minute

// output runs a program in a folder and returns what it prints.
func output(t *testing.T, folder, program string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Dir = folder
	out, err := c.CombinedOutput()
	return string(out), err
}

// must runs a program and fails the test if it fails.
func must(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := output(t, ".", program, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return out
}

// build builds the program of the product and returns its file.
func build(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rueda")
	must(t, "go", "-C", "../..", "build", "-o", file, "./cmd/rueda")
	return file
}

// start runs rueda dev until the test ends. It returns the URL of a proxy that validates what
// clients and the gateway exchange, once the market has begun.
func start(t *testing.T, program string) string {
	t.Helper()
	c := exec.Command(program, "dev", "--listen", "127.0.0.1:0", "--speed", "20")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
	url := ""
	for lines := bufio.NewScanner(out); url == "" && lines.Scan(); {
		if m := regexp.MustCompile(`^  REST +(http://\S+)`).FindStringSubmatch(lines.Text()); m != nil {
			url = m[1]
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the process
	for late := time.Now().Add(time.Minute); ; {
		res, err := http.Get(url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return openapitest.NewProxy(t).Pass(url)
		}
		if time.Now().After(late) {
			t.Fatal("the market does not begin")
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// fetch writes a document that a gateway serves to a file.
func fetch(t *testing.T, url, file string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v", res.Status, err)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestGeneratedClient runs a client that oapi-codegen generates from the document of a gateway
// against that gateway.
func TestGeneratedClient(t *testing.T) {
	url := start(t, build(t))
	folder := t.TempDir()
	document, code := filepath.Join(folder, "openapi.json"), filepath.Join(folder, "client.gen.go")
	fetch(t, url+"/openapi.json", document)
	must(t, "go", "tool", "oapi-codegen", "-package", "main", "-generate", "types,client,skip-prune", "-o", code, document)
	here, err := filepath.Abs("client")
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(here, "client.gen.go"): code}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "overlay.json"), overlay, 0o644); err != nil {
		t.Fatal(err)
	}
	client := filepath.Join(folder, "client")
	must(t, "go", "build", "-tags", "generated", "-overlay", filepath.Join(folder, "overlay.json"), "-o", client, "./client")
	must(t, client, url)
}

// documents writes both documents to a folder.
func documents(t *testing.T, folder string) {
	t.Helper()
	program := build(t)
	for name, schema := range map[string]string{"openapi.json": "openapi", "admin.json": "admin"} {
		text := must(t, program, "schema", schema)
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestParser loads and validates the documents with kin-openapi, with their examples.
func TestParser(t *testing.T) {
	folder := t.TempDir()
	documents(t, folder)
	for _, name := range []string{"openapi.json", "admin.json"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t.Context(), text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		broken := bytes.Replace(text, []byte(`"in": "query"`), []byte(`"in": "body"`), 1)
		if bytes.Equal(broken, text) {
			t.Fatalf("%s has no parameter of a query", name)
		}
		if validate(t.Context(), broken) == nil {
			t.Errorf("%s: a parameter in the body is accepted", name)
		}
	}
}

func validate(ctx context.Context, text []byte) error {
	document, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return err
	}
	return document.Validate(ctx)
}

// without skips a test because something is missing, or fails it if everything is required.
func without(t *testing.T, what string, err error) {
	t.Helper()
	if os.Getenv("RUEDA_REQUIRE_ALL") != "" {
		t.Fatalf("%s: %v", what, err)
	}
	t.Skipf("%s, so Spectral and openapi-typescript are not tested: %v", what, err)
}

// TestNode lints the documents with Spectral and compiles TypeScript types made of them. Both tools
// must notice a mistake.
func TestNode(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		without(t, "Node.js is not installed", err)
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		without(t, "npm is not installed", err)
	}
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS("node")); err != nil {
		t.Fatal(err)
	}
	if out, err := output(t, folder, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
		t.Logf("%s", out)
		without(t, "the packages cannot be installed", err)
	}
	documents(t, folder)
	module := func(name ...string) string {
		return filepath.Join(append([]string{folder, "node_modules"}, name...)...)
	}
	lint := func(file string) (string, error) {
		return output(t, folder, node, module("@stoplight", "spectral-cli", "dist", "index.js"), "lint", "--fail-severity", "warn", file)
	}
	for _, name := range []string{"openapi", "admin"} {
		if out, err := lint(name + ".json"); err != nil {
			t.Errorf("Spectral: %v\n%s", err, out)
		}
		out, err := output(t, folder, node, module("openapi-typescript", "bin", "cli.js"), name+".json", "-o", name+".d.ts")
		if err != nil {
			t.Fatalf("openapi-typescript: %v\n%s", err, out)
		}
	}
	compile := func() (string, error) { return output(t, folder, node, module("typescript", "bin", "tsc"), "-p", ".") }
	if out, err := compile(); err != nil {
		t.Errorf("tsc: %v\n%s", err, out)
	}
	for file, change := range map[string][2]string{
		"openapi.json": {`"operationId": "listTrades"`, `"operationId": "getTokens"`},
		"use.ts":       {"trade.P", "trade.price"},
	} {
		text, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		broken := bytes.Replace(text, []byte(change[0]), []byte(change[1]), 1)
		if bytes.Equal(broken, text) {
			t.Fatalf("%s does not have %s", file, change[0])
		}
		if err := os.WriteFile(filepath.Join(folder, file), broken, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := lint("openapi.json"); err == nil {
		t.Errorf("Spectral accepts two operations with one name\n%s", out)
	}
	if out, err := compile(); err == nil {
		t.Errorf("tsc accepts a member that trades do not have\n%s", out)
	}
}
