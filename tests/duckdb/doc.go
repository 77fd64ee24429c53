// Package duckdb reads the files of rueda export with DuckDB. It is a separate module, because
// DuckDB's library has a hundred megabytes and needs cgo.
package duckdb
