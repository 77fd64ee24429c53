package export

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/ruedahq/rueda/internal/engine/journal"
)

// Job describes a day to write to a folder.
type Job struct {
	Folder   string
	Types    []Type         // empty: all
	Request                 // its Type is not used
	Progress func(Progress) // called from time to time, on the caller's goroutine; may be nil
}

// Progress is the progress of a job.
type Progress struct {
	Type   Type
	Market string
	Rows   int64   // of this file so far
	Done   float64 // of the whole job, 0 to 1
}

// File is a file that a job wrote, or would have written if its rows were not missing.
type File struct {
	Path  string // in the folder: type=trades/date=2026-11-20/market=BYMA/part-0.parquet
	Type  Type
	Rows  int64 // 0: all are missing, and there is no file
	Bytes int64
	Lost  []Lost // rows that are missing in it
}

// Day writes a day as one file for each type and market that has rows. A file gets its name, and
// replaces an older file, when it is complete and synced to disk; a failed file is removed. Day
// returns the files written so far even if it returns an error.
func Day(ctx context.Context, j *journal.Archive, job Job) ([]File, error) {
	types := job.Types
	if len(types) == 0 {
		types = Types()
	}
	for _, job.Type = range types {
		if err := Check(j, job.Request); err != nil {
			return nil, err
		}
	}
	markets := Markets(j, job.Request)
	var files []File
	parts := len(types) * len(markets)
	for i, t := range types {
		for k, m := range markets {
			r := job.Request
			r.Type, r.Market = t, m
			before := float64(i*len(markets)+k) / float64(parts)
			progress := func(rows int64, done float64) {
				if job.Progress != nil {
					job.Progress(Progress{Type: t, Market: m, Rows: rows, Done: before + done/float64(parts)})
				}
			}
			f, err := writeFile(ctx, j, job.Folder, r, progress)
			if err != nil {
				return files, fmt.Errorf("export %s of %s, %s: %w", t, m, r.Date, err)
			}
			if f.Rows > 0 || len(f.Lost) > 0 {
				files = append(files, f)
			}
		}
	}
	return files, nil
}

// writeFile writes one file.
func writeFile(ctx context.Context, j *journal.Archive, folder string, r Request, progress func(int64, float64)) (file File, err error) {
	name := filepath.Join("type="+r.Type.String(), "date="+r.Date, "market="+r.Market, "part-0."+r.Format.String())
	file.Path, file.Type = filepath.ToSlash(name), r.Type
	name = filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return file, err
	}
	temp, err := os.CreateTemp(filepath.Dir(name), ".part-0.*.tmp")
	if err != nil {
		return file, err
	}
	defer func() {
		if err != nil || file.Rows == 0 {
			err = errors.Join(err, discard(temp))
		}
	}()
	w := bufio.NewWriterSize(temp, 1<<20)
	file.Rows, file.Lost, err = write(ctx, w, j, r, progress)
	if err != nil || file.Rows == 0 {
		return file, err
	}
	if err = w.Flush(); err != nil {
		return file, err
	}
	if file.Bytes, err = temp.Seek(0, io.SeekCurrent); err != nil {
		return file, err
	}
	if err = temp.Chmod(0o644); err != nil {
		return file, err
	}
	if err = errors.Join(temp.Sync(), temp.Close()); err != nil {
		return file, err
	}
	err = os.Rename(temp.Name(), name)
	return file, err
}

// discard removes a temporary file, which may be closed already.
func discard(f *os.File) error {
	if err := f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return os.Remove(f.Name())
}
