// Package list is a tool.
package list

// Length returns a number.
func Length() int { return 4 }
