// Package diskspace returns the free space of a file system.
package diskspace
