package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// limited writes until the kernel refuses, prints the last committed position, and exits.
func limited(folder string) error {
	signal.Ignore(syscall.SIGXFSZ)
	const most = 300_001
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
		return err
	}
	j, err := Open(context.Background(), Config{Folder: folder, BootID: "boot-1"})
	if err != nil {
		return err
	}
	src := newRowSource(26, 3)
	if err := j.Start(src.checkpoint); err != nil {
		return err
	}
	src.define(j)
	for committed := uint64(0); ; committed = src.position {
		src.write(j, 10, true)
		if _, err, ok := j.Suspended(); ok {
			fmt.Println(committed)
			if !errors.Is(err, syscall.EFBIG) {
				return err
			}
			return nil
		}
	}
}

// TestKernelRefusesE2E has the kernel accept a part of a write and refuse the rest: committed rows
// are stored, the incomplete frame is cut, and the epoch ends, because later rows were streamed. A
// reader reports that these are missing.
func TestKernelRefusesE2E(t *testing.T) {
	if folder := os.Getenv("JOURNAL_TEST_LIMITED"); folder != "" {
		if err := limited(folder); err != nil {
			t.Fatal(err)
		}
		os.Exit(0) // without output of the testing package
	}
	cfg := testConfig(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKernelRefusesE2E$")
	cmd.Env = append(os.Environ(), "JOURNAL_TEST_LIMITED="+cfg.Folder)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	committed, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil || committed < 1000 {
		t.Fatalf("%q were committed: %v", out, err)
	}
	r, err := OpenReader(t.Context(), cfg.Folder)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	src := newRowSource(26, 3)
	for i := range src.numbers {
		src.numbers[i] = uint32(i + 1)
	}
	for range committed + 10 {
		src.next(true)
	}
	got, damage := scanAll(t, r.Archive, ScanStart{}), r.Damage()
	if len(got) <= committed || len(damage) != 1 || damage[0].Reason != record.ReasonMissing {
		t.Fatalf("%d rows of %d, damage %v", len(got), committed, damage)
	}
	end := len(got) - 1
	sameRows(t, "what the kernel took", got[:end], src.rows[:end])
	if got[end].Kind != Gap || got[end].Reason != record.ReasonMissing {
		t.Errorf("the end is %+v", got[end])
	}
	j := mustOpen(t, cfg)
	if j.Epoch() == r.Epoch() {
		t.Error("the epoch goes on")
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}
