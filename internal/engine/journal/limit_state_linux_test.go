package journal

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// refused writes rows, makes the kernel refuse writes after an offset of any file, streams more
// rows, and exits. odd writes the state once more, so that its other copy is next.
func refused(folder string, limit uint64, odd bool) error {
	signal.Ignore(syscall.SIGXFSZ)
	j, err := Open(context.Background(), Config{Folder: folder})
	if err != nil {
		return err
	}
	src := newRowSource(27, 3)
	if err := j.Start(src.checkpoint); err != nil {
		return err
	}
	src.define(j)
	if odd {
		j.saveState()
	}
	src.write(j, 500, true)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		return err
	}
	src.write(j, 100, true)
	if _, _, ok := j.Suspended(); !ok {
		return fmt.Errorf("files of more than %d bytes can be written", limit)
	}
	fmt.Println(j.Epoch())
	return nil
}

// TestStateRefusedE2E has the kernel refuse rows, and one copy of the state or both, and kills the
// process: the epoch ends, because rows were streamed that are not stored.
func TestStateRefusedE2E(t *testing.T) {
	if folder := os.Getenv("JOURNAL_TEST_REFUSED"); folder != "" {
		var limit uint64
		var odd bool
		if _, err := fmt.Sscan(os.Getenv("JOURNAL_TEST_REFUSED_AT"), &limit, &odd); err != nil {
			t.Fatal(err)
		}
		if err := refused(folder, limit, odd); err != nil {
			t.Fatal(err)
		}
		os.Exit(0) // without output of the testing package
	}
	for _, limit := range []int{0, 64, stateSlot, 2 * stateSlot} {
		for _, odd := range []bool{false, true} {
			folder := t.TempDir()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStateRefusedE2E$")
			cmd.Env = append(os.Environ(), "JOURNAL_TEST_REFUSED="+folder, fmt.Sprintf("JOURNAL_TEST_REFUSED_AT=%d %v", limit, odd))
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			j := mustOpen(t, Config{Folder: folder})
			if old := strings.TrimSpace(string(out)); j.Epoch() == old || len(j.Epochs()) != 1 || j.Epochs()[0] != old {
				t.Errorf("at most %d bytes, the other copy of the state %v: epoch %q goes on", limit, odd, old)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
