package main

import (
	"runtime"
	"syscall"
	"time"
)

// counter counts the events of a client, and measures from the first to the last. One goroutine
// calls add.
type counter struct {
	most int
	done func() // called after the last event

	events        int
	sum           float64 // of prices, so that events are read
	began, ended  time.Time
	cpu           time.Duration
	before, after runtime.MemStats
}

// add counts an event.
func (c *counter) add(price float64) {
	if c.events == 0 {
		runtime.ReadMemStats(&c.before)
		c.cpu, c.began = processorTime(), time.Now()
	}
	c.sum += price
	if c.events++; c.events == c.most {
		c.ended, c.cpu = time.Now(), processorTime()-c.cpu
		runtime.ReadMemStats(&c.after)
		c.done()
	}
}

func (c *counter) result() result {
	return result{
		Events: c.events, Seconds: c.ended.Sub(c.began).Seconds(), CPU: c.cpu.Seconds(),
		Mallocs: float64(c.after.Mallocs - c.before.Mallocs), Allocated: float64(c.after.TotalAlloc - c.before.TotalAlloc),
	}
}

// processorTime returns the processor time of the process, of the system included.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // the arguments are right
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
