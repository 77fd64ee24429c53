package single

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
	"unsafe"

	"github.com/ruedahq/rueda/tests/chaos/check"
	"github.com/ruedahq/rueda/tests/chaos/producer"
)

// Disk is a file system that can be full.
type Disk struct{ folder string }

// NewDisk mounts a small file system in memory at a folder. Only root can; for others the error is
// nil and so is the disk, and only the size of files can be limited.
func NewDisk(folder string) (*Disk, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	if os.Getuid() != 0 {
		return nil, nil
	}
	if err := syscall.Mount("chaos", folder, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "size=96m,mode=0700"); err != nil {
		if errors.Is(err, syscall.EPERM) { // root of a container
			return nil, nil
		}
		return nil, err
	}
	return &Disk{folder}, nil
}

// Close removes the file system.
func (d *Disk) Close() error { return syscall.Unmount(d.folder, syscall.MNT_DETACH) }

func (d *Disk) filler() string { return filepath.Join(d.folder, "filler") }

// Fill takes all space that is left.
func (d *Disk) Fill() error {
	f, err := os.Create(d.filler())
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	for len(block) > 0 {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil && !errors.Is(err, io.ErrShortWrite) {
			return err
		}
	}
	return nil
}

// Free gives the space back.
func (d *Disk) Free() error { return os.Remove(d.filler()) }

// limit sets the size that files of a process may have.
func limit(pid int, bytes uint64) error {
	to := syscall.Rlimit{Cur: bytes, Max: ^uint64(0)}
	if _, _, err := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_FSIZE, uintptr(unsafe.Pointer(&to)), 0, 0, 0); err != 0 {
		return err
	}
	return nil
}

// full makes the disk full, and returns a function that ends this for the process that runs then.
func (x *run) full() (end func() error, err error) {
	x.report.Count("full disks", 1)
	if x.disk != nil && x.r.IntN(4) > 0 {
		return x.disk.Free, x.disk.Fill()
	}
	pid := x.gateway.Pid()
	return func() error {
		if err := limit(x.gateway.Pid(), ^uint64(0)); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return nil
	}, limit(pid, 200<<10)
}

// fullDisk lets the disk be full for a time, in which the process may be ended too.
func (x *run) fullDisk(ctx context.Context) error {
	free, err := x.full()
	if err != nil {
		return fmt.Errorf("fill the disk: %w", err)
	}
	producer.Wait(ctx, time.Duration(x.r.IntN(3_000))*time.Millisecond)
	s := []syscall.Signal{0, 0, syscall.SIGKILL, syscall.SIGTERM}[x.r.IntN(4)]
	if s == 0 {
		return free()
	}
	x.report.Count("ends while the disk is full", 1)
	if err := x.gateway.Stop(s); err != nil {
		return err
	}
	if x.r.IntN(2) == 0 {
		if err := free(); err != nil {
			return err
		}
		return x.gateway.Start(ctx)
	}
	err = x.gateway.Start(ctx)
	var ended *Ended
	if errors.As(err, &ended) && ended.Log != "" {
		x.report.Count("did not start while the disk is full", 1)
		if err := free(); err != nil {
			return err
		}
		return x.gateway.Start(ctx)
	}
	if err != nil {
		return err
	}
	producer.Wait(ctx, time.Duration(x.r.IntN(1_000))*time.Millisecond)
	return free()
}

// Full runs a gateway whose disk is full now and then. Rows may be missing then, and only those
// that came while it was full; epochs may end.
func Full(ctx context.Context, c Config) (*check.Report, error) {
	disk, err := NewDisk(filepath.Join(c.Folder, "data"))
	if err != nil {
		return nil, err
	}
	report, err := start(ctx, c, disk, true)
	if disk != nil {
		err = errors.Join(err, disk.Close())
	}
	return report, err
}
