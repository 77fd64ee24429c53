//go:build !linux

package proc

// GiveWay does nothing on this system.
func GiveWay() {}
