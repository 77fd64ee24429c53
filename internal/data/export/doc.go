// Package export writes days of the journal as tables for other tools: as Parquet, as CSV, or as
// the messages of the stream, one per line. docs/export.md describes the columns.
//
// [Write] writes one table to a writer, for example the answer of an HTTP request. [Day] writes a
// day to a folder in Hive layout, type=trades/date=2026-11-20/market=BYMA/part-0.parquet. Each file
// has a temporary name until it is complete and synced to disk. [Check] returns the error of an
// invalid request before anything is written.
//
// # Exact numbers
//
// Prices and sizes are DECIMAL(38,8) in sixteen bytes, and times are nanoseconds; floating point is
// never used. DECIMAL(18,8), which fits an int64, would end at 1e10, below the sizes that the
// stream accepts; and DuckDB multiplies two of them into eighteen digits again. Times are UTC but
// not marked so in Parquet, because DuckDB drops the nanoseconds of marked ones.
//
// # Days
//
// A row belongs to the day on which it was published, with two exceptions. The first minute after
// midnight still includes rows of the previous day. A bar belongs to the day in which it begins. So
// each row is in the table of exactly one day, and the tables of a day do not change
// after a certain time, for which Check waits. Rows of depth belong to the day on which they were
// published.
//
// # Memory
//
// Tables other than depth are read series by series, and a Parquet writer holds an encoded row
// group of at most 131,072 rows. Rows of depth come in the order of the stream; a quarter of a
// million at a time are sorted by instrument. For trades, the cancelled and corrected ones of one
// instrument at a time are kept in memory.
//
// # Concurrency
//
// Everything happens on the caller's goroutine. Any number of exports may run concurrently with
// each other and with the journal's writer.
package export
