// Package duckdb has DuckDB read what rueda exports. It is a module of its own, so that DuckDB's
// library, a hundred megabytes that need cgo, is no dependency of the product.
package duckdb
