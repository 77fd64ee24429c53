package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

func TestMain(m *testing.M) {
	testscript.Main(validated{m}, map[string]func(){
		"rueda": func() { os.Exit(openapitest.Main(func() int { return Main(os.Args[1:]) })) },
	})
}

// validated validates what the tests exchange with gateways.
type validated struct{ m *testing.M }

func (v validated) Run() int {
	folder, err := os.MkdirTemp("", "contexts")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	if err := os.Setenv("RUEDA_CONTEXTS", folder); err != nil { // not those of the user
		panic(err)
	}
	return openapitest.Main(v.m.Run)
}

// TestScriptsE2E runs testdata/*.txtar, which contain whole command lines.
func TestScriptsE2E(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			used, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			env.Defer(func() { used.Close() })
			env.Setenv("USED", used.Addr().String())
			env.Setenv("VERSION", command.ReadBuild().Version)
			env.Setenv("RUEDA_CONTEXTS", filepath.Join(env.WorkDir, "contexts"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "envsubst": envsubst, "envfile": envfile, "kid": kid, "dev": dev, "glob": glob},
	})
}

// exits runs a program and checks its exit status: exits 2 rueda serve.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits status program argument...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// dev runs a gateway with a simulated market until the end of the script, and sets URL to its
// address: dev argument...
func dev(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: dev argument...")
	}
	ctx, stop := context.WithCancel(context.Background())
	r, w := io.Pipe()
	var both sync.WaitGroup
	both.Go(func() {
		run(ctx, append([]string{"dev", "--listen", "127.0.0.1:0"}, args...), command.Streams{In: strings.NewReader(""), Out: w, Err: io.Discard})
		w.Close()
	})
	url := make(chan string, 1)
	both.Go(func() {
		for s := bufio.NewScanner(r); s.Scan(); {
			if rest, ok := strings.CutPrefix(s.Text(), "  REST "); ok {
				url <- strings.TrimSpace(rest)
			}
		}
		close(url)
	})
	ts.Defer(func() {
		stop()
		both.Wait()
	})
	address, ok := <-url
	if !ok {
		ts.Fatalf("the gateway ended")
	}
	for ready := false; !ready; { // the market may begin later
		answer, err := http.Get(address + "/readyz")
		ts.Check(err)
		answer.Body.Close()
		ready = answer.StatusCode == http.StatusOK
	}
	ts.Setenv("URL", address)
}

// glob sets a variable to the name of the only file that matches a pattern: glob pattern NAME.
func glob(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: glob pattern name")
	}
	names, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(names) != 1 {
		ts.Fatalf("%d files match %s", len(names), args[0])
	}
	ts.Setenv(args[1], names[0])
}

// envfile sets a variable to the content of a file: envfile NAME file.
func envfile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: envfile name file")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}

// kid sets a variable to the id of the key in a state, from the output of keys list --json: kid
// file state NAME.
func kid(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: kid file state name")
	}
	var keys []struct {
		ID    string `json:"kid"`
		State string `json:"state"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &keys))
	for _, k := range keys {
		if k.State == args[1] {
			ts.Setenv(args[2], k.ID)
			return
		}
	}
	ts.Fatalf("no key is %s", args[1])
}

// envsubst writes the values of variables into a file: envsubst file.
func envsubst(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: envsubst file")
	}
	name := ts.MkAbs(args[0])
	ts.Check(os.WriteFile(name, []byte(os.Expand(ts.ReadFile(args[0]), ts.Getenv)), 0o600))
}
