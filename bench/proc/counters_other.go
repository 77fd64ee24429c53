//go:build !linux

package proc

import (
	"errors"
	"time"
)

// The counters of a measurement exist only on Linux.

func CPU(int) (float64, error)                     { return 0, errors.ErrUnsupported }
func Busy() (float64, error)                       { return 0, errors.ErrUnsupported }
func Memory(int) (now, peak int64, err error)      { return 0, 0, errors.ErrUnsupported }
func MachineMemory() (used, slab int64, err error) { return 0, 0, errors.ErrUnsupported }
func RaiseFiles() (int, error)                     { return 0, errors.ErrUnsupported }
func Nap(ns int64)                                 { time.Sleep(time.Duration(ns)) }
