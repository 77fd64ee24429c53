package cli

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// firstEvent is the promised time from the start of the first command to the first event that the
// second one prints. The test allows three times as much.
const firstEvent = time.Second

// shell runs a command line of a document until the test ends. Its output has both streams.
func shell(t *testing.T, folder, command string) *program {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "sh", "-c", "exec "+command)
	cmd.Dir = folder
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = patience
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, ended := make(chan string, 4096), make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is interrupted
		w.Close()
	}()
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			select {
			case lines <- s.Text():
			case <-ctx.Done(): // the test does not read any more
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return &program{t: t, out: lines, talk: &transcript{}}
}

// TestFirstMinutesE2E runs the commands of the README's quick start as a stranger does: with the
// program alone, in an empty folder, and without an answer to a question.
func TestFirstMinutesE2E(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		if os.Getenv("RUEDA_REQUIRE_ALL") != "" {
			t.Fatalf("%v, and RUEDA_REQUIRE_ALL wants this test", err)
		}
		t.Skipf("%v: the commands of the README are not run (RUEDA_REQUIRE_ALL makes this a failure)", err)
	}
	text, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	command := func(pattern string) string {
		m := regexp.MustCompile(`(?m)^\$ (?:\./rueda|go run \./cmd/rueda) (` + pattern + `[^#\n]*)`).FindSubmatch(text)
		if m == nil {
			t.Fatalf("the README has no command rueda %s", pattern)
		}
		return "./rueda " + string(m[1])
	}
	folder := t.TempDir()
	name := filepath.Join(folder, "rueda")
	if out, err := exec.Command("go", "build", "-o", name, "../../../cmd/rueda").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	home := filepath.Join(folder, "home")
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("RUEDA_CONTEXTS", "")
	began := time.Now()
	dev := shell(t, folder, command("dev")+" --listen 127.0.0.1:0")
	t.Setenv("RUEDA_URL", dev.line(`^  REST +(http://\S+)`)[1])
	watch := shell(t, folder, command("watch .*--book"))
	first := watch.line(`^GGAL\|BYMA\|24hs  .*#(\d+)$`)[1]
	took := time.Since(began)
	t.Logf("figure: first book %d ms after the start of rueda dev", took.Milliseconds())
	if took > 3*firstEvent {
		t.Errorf("the first book came after %v", took)
	}
	watch.line(`^ *\d+ +\S+ +[\d.]+ \| [\d.]+ +\S+ +\d+$`)
	if next := watch.line(`^GGAL\|BYMA\|24hs  .*#(\d+)$`)[1]; next == first {
		t.Errorf("the book does not move: #%s twice", next)
	}

	// Both terminals show a halt.
	shell(t, folder, command("trigger halt")).line(`^GGAL\|BYMA\|24hs: trading is halted for 10 s`)
	watch.line(`  H  GGAL\|BYMA\|24hs  halt \(triggered\) until `)
	dev.line(`  connected     demo from 127\.0\.0\.1$`)
	dev.line(`  fault         halt: GGAL\|BYMA\|24hs: trading is halted for 10 s.* \(demo\)$`)
	shell(t, folder, "./rueda trigger disconnect").line(`is reset in 1 s`)
	watch.line(`connection lost: `)
	watch.line(`live again`)
	dev.line(`  disconnected  demo from 127\.0\.0\.1: `)
	if _, err := os.Stat(home); err == nil {
		t.Error("the commands wrote files of configuration")
	}
	if list, err := filepath.Glob(filepath.Join(folder, "*")); err != nil || strings.Join(list, " ") != name {
		t.Errorf("the commands left files: %v, %v", list, err)
	}
}
