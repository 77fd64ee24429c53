package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// TestStreamResumes breaks the connections of a stream. Each trade is printed once and in order.
func TestStreamResumes(t *testing.T) {
	t.Parallel()
	_, url := startMarket(t, "--speed", "20")
	f := startFlaky(t, strings.TrimPrefix(url, "http://"))
	p := start(t, "stream", "GGAL|BYMA|24hs", "--trades", "--strict", "--count", "200", "--url", "http://"+f.Addr().String())
	var first, n uint64
	for n = 0; first == 0 || n < first+199; {
		var m struct{ N uint64 }
		if err := json.Unmarshal([]byte(p.line(`^(\{.*\})$`)[1]), &m); err != nil {
			t.Fatal(err)
		}
		if first == 0 {
			first = m.N
		} else if m.N != n+1 {
			t.Fatalf("trade %d after %d", m.N, n)
		}
		if n = m.N; n == first+10 {
			f.cut()
		}
	}
	if status := p.exit(); status != command.ExitOK {
		t.Errorf("ended with %d", status)
	}
	p.said(`connection lost: .*; retrying in`)
}

// TestRevokedLogin ends the login of a context while commands use it. They end, and say how to log
// in again.
func TestRevokedLogin(t *testing.T) {
	t.Setenv("RUEDA_CONTEXTS", t.TempDir())
	_, url := startMarket(t)
	rueda := func(input string, args ...string) {
		t.Helper()
		talk := &transcript{}
		if status := run(context.Background(), args, command.Streams{In: strings.NewReader(input), Out: talk, Err: talk}); status != command.ExitOK {
			t.Fatalf("%v ended with %d: %s", args, status, talk)
		}
	}
	rueda("", "context", "add", "test", "--url", url)
	rueda("demo\n", "auth", "login", "--password-stdin")
	var programs []*program
	for _, name := range []string{"stream", "watch"} {
		p := start(t, name, "GGAL|BYMA|24hs")
		p.said(`live as demo`)
		programs = append(programs, p)
	}
	rueda("", "auth", "logout")
	for _, p := range programs {
		if status := p.exit(); status != command.ExitRefused {
			t.Errorf("ended with %d", status)
		}
		p.said(`the login of demo has ended: .*\n  Log in again: rueda auth login --context test\n`)
	}
}
