package ndjson

import (
	"bufio"
	"bytes"
	"errors"
)

// next is the next line without its end, valid until the next call. With io.EOF
// it may be a last line that has no end.
func (p *producer) next() ([]byte, error) {
	p.long = p.long[:0]
	for {
		part, err := p.in.ReadSlice('\n')
		if len(p.long)+len(part) > MaxLine+1 {
			if errors.Is(err, bufio.ErrBufferFull) {
				err = p.discard()
			}
			if err != nil {
				return nil, err
			}
			return nil, errTooLong
		}
		if err == nil && len(p.long) == 0 {
			return trim(part), nil
		}
		p.long = append(p.long, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return trim(p.long), err
		}
	}
}

// discard reads to the end of the line.
func (p *producer) discard() error {
	for {
		if _, err := p.in.ReadSlice('\n'); !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

func trim(line []byte) []byte { return bytes.TrimRight(line, "\r\n") }

// whole says whether another line has come already: then its events go along.
func (p *producer) whole() bool {
	waiting, _ := p.in.Peek(p.in.Buffered()) // never more than is there
	return bytes.IndexByte(waiting, '\n') >= 0
}
