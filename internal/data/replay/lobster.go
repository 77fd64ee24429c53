package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/internal/data/replay/lobster"
)

var (
	errNoSymbol  = errors.New("the file does not contain its symbol: set Symbols to one symbol")
	errBookShort = errors.New("order book: the file ends before the message file")
	errBookLong  = errors.New("order book: the file is longer than the message file")
)

func openLOBSTER(s *shared, in *input) (playable, error) {
	c := lobster.Config{}
	var err error
	if c.Symbol, err = s.symbol(); err == nil {
		c.Midnight, err = s.date()
	}
	if err != nil {
		return nil, fmt.Errorf("replay %s: LOBSTER: %w", s.path, err)
	}
	books, err := s.books()
	if err != nil {
		return nil, err
	}
	if c.Books = books != ""; !c.Books && s.stream == nil {
		if c.Complete, err = s.complete(c); err != nil {
			return nil, err
		}
	}
	return openRecords(s, in, func() (decoder, error) {
		if !c.Books {
			return lobster.New(c), nil
		}
		in, err := openInput(books, nil)
		if err != nil {
			return nil, err
		}
		return &pair{Decoder: lobster.New(c), books: in}, nil
	})
}

// symbol returns the symbol of a recording that does not contain it.
func (s *shared) symbol() (string, error) {
	name := ""
	if len(s.config.Symbols) == 1 {
		name, _, _ = strings.Cut(s.config.Symbols[0], "|")
	} else if len(s.config.Symbols) == 0 && s.config.FromName {
		name, _, _ = strings.Cut(filepath.Base(s.path), "_")
	}
	in := decode.Equity(name, lobster.Market)
	if name == "" || in.Validate() != nil {
		return "", errNoSymbol
	}
	return name, nil
}

// books returns the path of the order book file of a message file, or "" if there is none.
func (s *shared) books() (string, error) {
	folder, name := filepath.Split(s.path)
	if !strings.Contains(name, "_message_") {
		return "", nil
	}
	path := filepath.Join(folder, strings.Replace(name, "_message_", "_orderbook_", 1))
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("open order book file: %w", err)
	}
	return path, nil
}

// complete reads a complete message file and reports whether every order in it is known. For a
// damaged file the result covers the part before the damage.
func (s *shared) complete(c lobster.Config) (known bool, err error) {
	in, err := openInput(s.path, nil)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	c.Complete = true
	d := lobster.New(c)
	var b decode.Batch
	for !d.Lost() {
		n, bad := d.Decode(in.data(), &b)
		in.skip(n)
		b.Reset()
		if bad != nil || n == 0 && in.more() != nil {
			return !d.Lost(), nil
		}
	}
	return false, nil
}

// pair decodes a message file together with its order book file.
type pair struct {
	*lobster.Decoder
	books *input
	ended bool
}

// Close closes the order book file.
func (p *pair) Close() error { return p.books.close() }

// Decode implements decoder.
func (p *pair) Decode(data []byte, b *decode.Batch) (int, error) {
	for {
		n, m, err := p.Pair(data, p.books.data(), b)
		p.books.skip(m)
		if err != nil {
			return n, p.locate(err)
		}
		if n > 0 || b.Full() || bytes.IndexByte(data, '\n') < 0 || p.ended {
			if n == 0 && p.ended && bytes.IndexByte(data, '\n') >= 0 {
				return n, p.fault(errBookShort)
			}
			return n, nil
		}
		// There is a message without a book line.
		if err := p.more(); err != nil {
			return n, err
		}
	}
}

// more reads more of the order book file, whose last line may lack its line feed.
func (p *pair) more() error {
	err := p.books.more()
	if !ended(err) {
		if err != nil {
			return p.fault(err)
		}
		return nil
	}
	p.ended = true
	if rest := p.books.data(); len(rest) > 0 && rest[len(rest)-1] != '\n' {
		p.books.buf = append(bytes.Clone(rest), '\n')
		p.books.from, p.books.to = 0, len(p.books.buf)
	}
	return nil
}

// End implements decoder.
func (p *pair) End(rest []byte, b *decode.Batch) error {
	if len(rest) > 0 {
		n, err := p.Decode(append(bytes.Clone(rest), '\n'), b)
		if err != nil {
			return err
		}
		if n == 0 {
			return p.fault(errBookShort)
		}
	}
	for !p.ended && len(p.books.data()) == 0 {
		if err := p.more(); err != nil {
			return err
		}
	}
	if len(bytes.TrimSpace(p.books.data())) > 0 {
		return p.fault(errBookLong)
	}
	return nil
}

// locate adds the position to an error of the order book file.
func (p *pair) locate(err error) error {
	if _, ok := errors.AsType[*lobster.BookError](err); !ok {
		return err
	}
	return p.fault(err)
}

func (p *pair) fault(err error) *Error {
	bad := p.books.fault(err)
	bad.Line = max(1, p.Line())
	return bad
}
