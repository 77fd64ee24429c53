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

// CPU returns the processor time of a process, user and system, in seconds. It reads the clock of
// the process, which has nanoseconds; /proc has ticks of 10 ms.
func CPU(pid int) (float64, error) {
	const cpuClock = 2 // CPUCLOCK_SCHED of all threads
	id := ^int32(pid)<<3 | cpuClock
	var ts syscall.Timespec
	_, _, e := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, uintptr(id), uintptr(unsafe.Pointer(&ts)), 0)
	if e != 0 {
		return 0, fmt.Errorf("processor time of %d: %w", pid, e)
	}
	return float64(ts.Sec) + float64(ts.Nsec)/1e9, nil
}

// Busy returns the total busy time of the machine's cores in seconds.
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
	const ticks = 100 // per second, on every Linux that Go supports
	return total / ticks, nil
}

// Memory returns the resident memory of a process in bytes, now and at its peak.
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

// MachineMemory returns the used memory of the machine in bytes, including slabs of the kernel for
// sockets and other objects.
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

// RaiseFiles raises the limit of file descriptors of this process to its maximum and returns it.
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

// Nap sleeps with the precision of the kernel: timers of the runtime may be a millisecond late if
// nothing else runs.
func Nap(ns int64) {
	if ns <= 0 {
		return
	}
	ts := syscall.NsecToTimespec(ns)
	_ = syscall.Nanosleep(&ts, nil) // a signal ends it early; callers check the clock
}
