package recording

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Continue opens a recording to append to it. It calls visit for each existing line and returns a
// Writer positioned after the last line, together with the first line of the file. If the file is
// truncated, torn describes what is missing. Continue removes an incomplete line of a plain file.
// It rewrites a truncated compressed file, because nothing can be appended to an incomplete
// compressed block.
func Continue(name string, visit func(*Line) error) (w *Writer, m *Meta, torn error, err error) {
	r, err := Open(name)
	if err != nil {
		return nil, nil, nil, err
	}
	for err == nil {
		var line *Line
		if line, err = r.Next(); err == nil {
			err = visit(line)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, nil, nil, err
	}
	torn = r.Torn()
	switch {
	case torn == nil:
	case r.packed:
		err = rewrite(name)
	default:
		err = os.Truncate(name, r.End())
	}
	if err != nil {
		return nil, nil, torn, fmt.Errorf("repair %s: %w", name, err)
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, nil, torn, fmt.Errorf("continue recording: %w", err)
	}
	w = &Writer{name: name}
	if err := w.open(file); err != nil {
		return nil, nil, torn, errors.Join(err, file.Close())
	}
	return w, r.Meta(), torn, nil
}

// rewrite writes the complete lines of a compressed recording to a new file that replaces it.
func rewrite(name string) (err error) {
	r, err := Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	// The extension determines the compression, so it must stay the same.
	fresh := &Writer{name: name}
	// An interrupted repair may have left one. A link of somebody else is not followed.
	if err := os.Remove(name + ".repaired"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(name+".repaired", os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(name+".repaired"))
		}
	}()
	if err := fresh.open(file); err != nil {
		return errors.Join(err, file.Close())
	}
	err = fresh.copy(r)
	if err = errors.Join(err, fresh.Close()); err != nil {
		return err
	}
	return os.Rename(name+".repaired", name)
}

// copy writes everything that a Reader returns, including the first line.
func (w *Writer) copy(r *Reader) error {
	if err := w.first(r.Meta()); err != nil {
		return err
	}
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.Message(line.At, line.Body); err != nil {
			return err
		}
	}
}
