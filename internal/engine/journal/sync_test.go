package journal

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/journal/dayfile"
	"github.com/ruedahq/rueda/internal/engine/journal/disk"
)

// TestSyncWhileClosing blocks the closing of a day: the disk is still synced every second, a
// suspended journal is still probed, and Run ends when the closing does.
func TestSyncWhileClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig(t)
		stall, fails := make(chan struct{}), atomic.Bool{}
		stalled := sync.OnceFunc(func() { <-stall })
		cfg.sys.Write = func(f *os.File, b []byte) (int, error) {
			if strings.HasSuffix(f.Name(), dayfile.Name+disk.TempEnding) {
				stalled()
			} else if fails.Load() {
				return 0, syscall.ENOSPC
			}
			return f.Write(b)
		}
		src := newRowSource(72, 3)
		j := begin(t, cfg, src)
		writeDays(t, j, src, 2, 1_000)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- j.Run(ctx) }()
		for range 5 {
			time.Sleep(1001 * time.Millisecond) // between two ticks
			src.write(j, 10, true)
			if !j.dirty.Load() {
				t.Error("nothing was written")
			}
			time.Sleep(time.Second)
			if j.dirty.Load() {
				t.Error("what was written waits for the disk longer than a second")
			}
		}
		synctest.Wait()
		fails.Store(true)
		src.write(j, 10, true)
		time.Sleep(time.Second)
		synctest.Wait()
		fails.Store(false)
		time.Sleep(2 * time.Second)
		j.Commit()
		if _, err, ok := j.Suspended(); ok {
			t.Errorf("there is space: %v", err)
		}
		if d := j.Days(); d[0].Closed {
			t.Error("the day is closed")
		}
		close(stall)
		time.Sleep(2 * time.Second)
		if d := j.Days(); !d[0].Closed {
			t.Error("the day is not closed")
		}
		stop()
		if err := errors.Join(<-done, j.Close()); err != nil {
			t.Fatal(err)
		}
	})
}
