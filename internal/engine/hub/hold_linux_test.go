package hub_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// threadTime returns the processor time of this thread.
func threadTime() time.Duration {
	const threadClock = 3 // CLOCK_THREAD_CPUTIME_ID
	var ts syscall.Timespec
	if _, _, e := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, threadClock, uintptr(unsafe.Pointer(&ts)), 0); e != 0 {
		panic(e)
	}
	return time.Duration(ts.Nano())
}

// startCommits starts a goroutine that commits and keeps its thread. stop ends the goroutine.
func (w *crowd) startCommits() (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	w.hub.Mu().Lock()
	w.hub.SetCommitting(true)
	w.hub.Mu().Unlock()
	var committer sync.WaitGroup
	committer.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for {
			select {
			case <-ctx.Done():
				return
			case <-w.hub.Kicked():
			}
			w.disk.Lock()
			w.hub.CommitOnce()
			w.disk.Unlock()
		}
	})
	return func() {
		w.hub.Commit()
		cancel()
		committer.Wait()
		w.hub.Mu().Lock()
		w.hub.SetCommitting(false)
		w.hub.Mu().Unlock()
	}
}

// TestHoldTable checks the longest hold of the hub's lock by each operation, with 50,000
// instruments and 20,000 connections. The median of five runs is at most a millisecond in processor
// time of the thread. The test takes minutes. RUEDA_HOLD_ONLY is a part of the names of the
// operations to measure.
func TestHoldTable(t *testing.T) {
	if os.Getenv("RUEDA_SOAK") == "" {
		t.Skip("takes minutes: set RUEDA_SOAK")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	sizes := [3]int{50_000, 20_000, 1_000_000}
	if s := os.Getenv("RUEDA_HOLD_SIZES"); s != "" {
		if _, err := fmt.Sscan(s, &sizes[0], &sizes[1], &sizes[2]); err != nil {
			t.Fatal(err)
		}
	}
	w := newCrowd(t, sizes[0], sizes[1], sizes[2])
	defer w.startCommits()()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the work of the garbage collector is not counted
	t.Log("longest hold, ms: median and most of 5 runs, and by which function")
	for _, op := range append(feedOperations(), clientOperations()...) {
		if !strings.Contains(op.name, os.Getenv("RUEDA_HOLD_ONLY")) {
			continue
		}
		var times []time.Duration
		worst := &holds{}
		for range 5 {
			run := op.prepare(w)
			runtime.GC()
			h := &holds{clock: threadTime}
			w.hub.Mu().Lock()
			w.hub.Mu().Watch(h)
			h.Locked("")
			w.hub.Mu().Unlock()
			run()
			w.hub.Commit()
			w.hub.Mu().Lock()
			w.hub.Mu().Watch(nil)
			w.hub.Mu().Unlock()
			w.calm()
			times = append(times, h.longest)
			if h.longest >= worst.longest {
				worst = h
			}
		}
		slices.Sort(times)
		t.Logf("| %s | %.3f | %.3f | %s |", op.name, times[2].Seconds()*1e3, times[4].Seconds()*1e3,
			worst.by[strings.LastIndexByte(worst.by, '.')+1:])
		if times[2] > time.Millisecond {
			t.Errorf("%s: a hold of %v by %s", op.name, times[2], worst.by)
		}
	}
}
