package recording

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// CreateConfig configures a Writer.
type CreateConfig struct {
	Overwrite bool // replace an existing file
}

// ErrExists is returned if the file exists.
var ErrExists = errors.New("the file exists already")

// Writer writes a recording. Its methods are safe for concurrent use.
type Writer struct {
	name   string
	config CreateConfig

	mu     sync.Mutex
	file   *os.File // nil before Begin
	buf    *bufio.Writer
	packed packer // nil: not compressed
	line   []byte
	rows   int64
	text   int64
	size   counter
	err    error // the first error; nothing is written after it
}

// packer is a compressor that can be flushed.
type packer interface {
	io.WriteCloser
	Flush() error
}

// counter counts the bytes written to a file.
type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}

// Create returns a Writer. Begin creates the file, so that a recorder that fails before does not
// affect an existing file. Create returns ErrExists if Begin would.
func Create(name string, config CreateConfig) (*Writer, error) {
	if _, err := os.Lstat(name); !config.Overwrite && err == nil {
		return nil, fmt.Errorf("%s: %w", name, ErrExists)
	}
	if info, err := os.Stat(filepath.Dir(name)); err != nil {
		return nil, fmt.Errorf("create recording: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("create recording: %s is not a folder", filepath.Dir(name))
	}
	return &Writer{name: name, config: config}, nil
}

// Begun reports whether the first line was written.
func (w *Writer) Begun() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.file != nil
}

// Begin creates the file and writes its first line. It sets Format and Version.
func (w *Writer) Begin(m *Meta) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if w.config.Overwrite {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	file, err := os.OpenFile(w.name, flags, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w", w.name, ErrExists)
	}
	if err != nil {
		return fmt.Errorf("create recording: %w", err)
	}
	if err := w.open(file); err != nil {
		return errors.Join(err, file.Close())
	}
	return w.first(m)
}

// first writes the first line.
func (w *Writer) first(m *Meta) error {
	first := *m
	first.Format, first.Version = formatName, Version
	text, err := json.Marshal(&first)
	if err != nil {
		return fmt.Errorf("create recording: %w", err)
	}
	w.line = append(append(w.line[:0], text...), '\n')
	if err := w.put(); err != nil {
		return err
	}
	return w.flush()
}

// open sets up the compression that the extension of the file selects.
func (w *Writer) open(file *os.File) error {
	w.size.to = file
	var out io.Writer = &w.size
	switch {
	case strings.HasSuffix(w.name, ".gz"):
		w.packed = gzip.NewWriter(out)
	case strings.HasSuffix(w.name, ".zst"):
		z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return fmt.Errorf("create recording: %w", err)
		}
		w.packed = z
	}
	if w.packed != nil {
		out = w.packed
	}
	w.file, w.buf = file, bufio.NewWriterSize(out, 64<<10)
	return nil
}

// Message writes a message with its receive time (Unix ns).
func (w *Writer) Message(at int64, body []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.line = strconv.AppendInt(w.line[:0], at, 10)
	w.line = append(w.line, ' ')
	for _, c := range body {
		if c == '\n' || c == '\r' { // strings contain only escaped line breaks
			c = ' '
		}
		w.line = append(w.line, c)
	}
	w.line = append(w.line, '\n')
	w.rows++
	return w.put()
}

// Note writes a note.
func (w *Writer) Note(at int64, n *Note) error {
	text, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("write %s: %w", w.name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.line = strconv.AppendInt(w.line[:0], at, 10)
	w.line = append(append(append(w.line, ' '), text...), '\n')
	return w.put()
}

// put writes w.line.
func (w *Writer) put() error {
	if w.err != nil {
		return w.err
	}
	if w.buf == nil {
		return fmt.Errorf("write %s: it has no first line", w.name)
	}
	n, err := w.buf.Write(w.line)
	w.text += int64(n)
	return w.failed(err)
}

// Flush writes all buffered data to the file.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flush()
}

func (w *Writer) flush() error {
	if w.err != nil || w.file == nil {
		return w.err
	}
	err := w.buf.Flush()
	if err == nil && w.packed != nil {
		err = w.packed.Flush()
	}
	return w.failed(err)
}

func (w *Writer) failed(err error) error {
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("write %s: %w", w.name, err)
	}
	return w.err
}

// Written returns the number of messages written, their size with the notes as text, and the size
// of the file so far.
func (w *Writer) Written() (rows, text, file int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rows, w.text, w.size.n
}

// Close ends the recording and syncs it to disk.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return nil
	}
	err := w.flush()
	if w.packed != nil {
		err = errors.Join(err, w.packed.Close())
	}
	err = errors.Join(err, w.file.Sync(), w.file.Close())
	w.file, w.buf, w.packed = nil, nil, nil
	if w.err == nil && err != nil {
		return fmt.Errorf("close %s: %w", w.name, err)
	}
	return err
}
