// Package fileowner returns the owner of a file, on systems that have one.
package fileowner
