package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// CPU is the processor time that a process has used, user and system, in seconds.
// It asks the process's own clock, which counts nanoseconds where /proc counts ticks of 10 ms.
func CPU(pid int) (float64, error) {
	const cpuClock = 2 // CPUCLOCK_SCHED, of all threads
	id := ^int32(pid)<<3 | cpuClock
	var ts syscall.Timespec
	_, _, e := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, uintptr(id), uintptr(unsafe.Pointer(&ts)), 0)
	if e != 0 {
		return 0, fmt.Errorf("processor time of %d: %w", pid, e)
	}
	return float64(ts.Sec) + float64(ts.Nsec)/1e9, nil
}

// Busy is how long the machine's cores have been busy since it started, in seconds, with
// whatever.
func Busy() (float64, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	f := bytes.Fields(line)
	if len(f) < 9 {
		return 0, errors.New("/proc/stat: no line of all cores")
	}
	total := 0.0
	for _, i := range [...]int{1, 2, 3, 6, 7} { // user, nice, system, irq, softirq; not idle, iowait, stolen
		v, err := strconv.ParseFloat(string(f[i]), 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		total += v
	}
	const ticks = 100 // a second, on every Linux that Go runs on
	return total / ticks, nil
}

// Memory is what a process has resident, in bytes, now and at its peak.
func Memory(pid int) (now, peak int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch string(f[0]) {
		case "VmRSS:":
			now, err = strconv.ParseInt(string(f[1]), 10, 64)
		case "VmHWM:":
			peak, err = strconv.ParseInt(string(f[1]), 10, 64)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	return now << 10, peak << 10, nil
}

// MachineMemory is the machine's memory in use, in bytes: all but what is available and
// what the kernel keeps for its sockets and other objects, which is slab.
func MachineMemory() (used, slab int64, err error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0, err
	}
	values := map[string]int64{}
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		if len(f) < 2 {
			continue
		}
		v, err := strconv.ParseInt(string(f[1]), 10, 64)
		if err != nil {
			continue
		}
		values[string(bytes.TrimRight(f[0], ":"))] = v << 10
	}
	return values["MemTotal"] - values["MemAvailable"], values["Slab"], nil
}

// RaiseFiles lets this process have as many descriptors open as it may at all, and says how
// many those are.
func RaiseFiles() (int, error) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, err
	}
	l.Cur = l.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, err
	}
	return int(min(l.Max, 1<<30)), nil
}

// Nap sleeps with the precision of the kernel: the runtime's own timers wake up to a
// millisecond late when nothing else runs.
func Nap(ns int64) {
	if ns <= 0 {
		return
	}
	ts := syscall.NsecToTimespec(ns)
	_ = syscall.Nanosleep(&ts, nil) // a signal ends it early: whoever naps looks at the clock
}
