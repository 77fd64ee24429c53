package recording

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Continue takes up a recording where it ended: it calls visit for each line that is there, and
// gives a Writer that goes on behind the last, with the first line of the file. A torn plain file
// loses its torn line; a torn packed one is written anew beside and then takes the old one's
// place, since nothing can be put behind a packed block that has no end. torn says what was cut off.
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
		err = mend(name)
	default:
		err = os.Truncate(name, r.End())
	}
	if err != nil {
		return nil, nil, torn, fmt.Errorf("mend %s: %w", name, err)
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

// mend writes the whole lines of a packed recording anew.
func mend(name string) (err error) {
	r, err := Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	// The ending decides how it is packed, so it stays the ending.
	fresh := &Writer{name: name}
	file, err := os.OpenFile(name+".mended", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(name+".mended"))
		}
	}()
	if err := fresh.open(file); err != nil {
		return errors.Join(err, file.Close())
	}
	err = fresh.copy(r)
	if err = errors.Join(err, fresh.Close()); err != nil {
		return err
	}
	return os.Rename(name+".mended", name)
}

// copy writes what a Reader has, its first line too.
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
