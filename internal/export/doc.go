// Package export writes days of the journal as tables for other tools: Parquet, CSV, or
// the stream's own messages, one a line. docs/export.md has the columns.
//
// [Write] writes one table to a writer, as a route of REST does. [Day] writes a day into a folder in
// Hive's layout, type=trades/date=2026-11-20/market=BYMA/part-0.parquet, each file under
// another name until it is whole and on disk. [Check] says what stands against a request
// before anything is written.
//
// # What is exact
//
// Prices and sizes are DECIMAL(38,8) in sixteen bytes and times are nanoseconds; no number passes
// through floating point. DECIMAL(18,8), which an int64 holds, would end at 1e10, below sizes that the
// stream takes, and DuckDB multiplies two of them into eighteen digits again. Times are
// UTC and not marked so in Parquet: of a time that is, DuckDB drops the nanoseconds.
//
// # Days
//
// A row is of the day on which it was published, but that the first minute after midnight still
// takes what happened before it, and a bar is of the day in which it begins. So each row is in the
// table of one day, and a day has an end after which its tables do not change: Check waits
// for it. Rows of depth are those published on the day.
//
// # Memory
//
// Tables other than depth are read series by series, and a Parquet writer holds a row group of at
// most 131,072 rows, encoded. Rows of depth come in the order of the stream: a quarter of a
// million of them at a time are sorted by instrument. Of trades, those cancelled or
// corrected are remembered, an instrument at a time.
//
// # Concurrency
//
// Everything happens on the caller's goroutine. Any number of exports may run beside each other and
// beside the journal's writer.
package export
