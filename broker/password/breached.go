package password

import (
	"bytes"
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
)

// Breached is a file of passwords that are known from breaches, as haveibeenpwned.com publishes it:
// a line HASH:COUNT for each password, with its SHA-1 in hexadecimal, sorted by hash. The file is
// searched on disk and may have any size. It may be replaced while it is in use. SHA-1 is the
// format of the file; nothing that this package stores uses it.
type Breached struct {
	path string
}

const (
	hashDigits = 2 * sha1.Size
	// breachedBlock is read at each step of a search: more than two lines. The last step reads
	// breachedRest.
	breachedBlock = 256
	breachedRest  = 4 << 10
)

// errBreachedForm means that a line does not have the form of the published file.
var errBreachedForm = errors.New("is not a list of SHA-1 hashes with their counts, a line each: 0018A45C4D1DEF81644B54AB7F969B88D65:3")

// OpenBreached returns the passwords of a file. It checks the form of the first lines and the order
// of the first and the last one.
func OpenBreached(path string) (*Breached, error) {
	b := &Breached{path: path}
	err := b.open(func(f io.ReaderAt, size int64) error {
		first, err := readAt(f, 0, breachedBlock)
		if err != nil {
			return err
		}
		last, err := readAt(f, max(0, size-breachedBlock), breachedBlock)
		if err != nil {
			return err
		}
		if i := bytes.LastIndexByte(bytes.TrimRight(last, "\r\n"), '\n'); i >= 0 {
			last = last[i+1:]
		}
		lowest, ok := lineHash(first)
		highest, okToo := lineHash(last)
		if !ok || !okToo {
			return errBreachedForm
		}
		if bytes.Compare(lowest, highest) > 0 {
			return errors.New("is not sorted by hash")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Has reports whether the file has a password.
func (b *Breached) Has(password string) (found bool, err error) {
	sum := sha1.Sum([]byte(password))
	want := bytes.ToUpper(hex.AppendEncode(nil, sum[:]))
	err = b.open(func(f io.ReaderAt, size int64) error {
		found, err = searchLines(f, size, want)
		return err
	})
	return found, err
}

func (b *Breached) open(use func(f io.ReaderAt, size int64) error) (err error) {
	f, err := os.Open(b.path)
	if err != nil {
		return fmt.Errorf("read the breached passwords: %w", err)
	}
	defer func() { err = cmp.Or(err, f.Close()) }()
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("is not a file")
	default:
		err = use(f, info.Size())
	}
	if err != nil {
		return fmt.Errorf("breached passwords: %s: %w", b.path, err)
	}
	return nil
}

// searchLines reports whether a line begins with the hash want.
func searchLines(f io.ReaderAt, size int64, want []byte) (bool, error) {
	from, to := int64(0), size // a line with want begins in [from, to), at a line's start from
	for to-from > breachedRest {
		middle := from + (to-from)/2
		block, err := readAt(f, middle, breachedBlock)
		if err != nil {
			return false, err
		}
		end := bytes.IndexByte(block, '\n')
		if end < 0 && middle+int64(len(block)) < size {
			return false, errBreachedForm
		}
		start := middle + int64(end) + 1
		if end < 0 || start >= to { // no line begins after middle
			to = middle + 1
			continue
		}
		hash, ok := lineHash(block[end+1:])
		switch {
		case !ok:
			return false, errBreachedForm
		case bytes.Compare(hash, want) <= 0:
			from = start
		default:
			to = start
		}
	}
	rest, err := readAt(f, from, int(to-from)+breachedBlock)
	if err != nil {
		return false, err
	}
	for line := range bytes.Lines(rest) {
		if hash, ok := lineHash(line); ok && bytes.Equal(hash, want) {
			return true, nil
		}
	}
	return false, nil
}

// readAt reads up to n bytes.
func readAt(f io.ReaderAt, at int64, n int) ([]byte, error) {
	block := make([]byte, n)
	n, err := f.ReadAt(block, at)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return block[:n], err
}

// lineHash returns the hash of the line at the start of a text, in upper case.
func lineHash(text []byte) ([]byte, bool) {
	if len(text) < hashDigits {
		return nil, false
	}
	if rest := text[hashDigits:]; len(rest) > 0 && rest[0] != ':' && rest[0] != '\r' && rest[0] != '\n' {
		return nil, false
	}
	if _, err := hex.Decode(make([]byte, sha1.Size), text[:hashDigits]); err != nil {
		return nil, false
	}
	return bytes.ToUpper(text[:hashDigits]), true
}
