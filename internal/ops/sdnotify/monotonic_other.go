//go:build !linux

package sdnotify

// monotonic returns 0: only Linux has systemd.
func monotonic() int64 { return 0 }
