// Package conform has the command rueda conformance, which tests client programs.
package conform
