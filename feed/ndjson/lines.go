package ndjson

import (
	"bufio"
	"bytes"
	"errors"
)

// next returns the next line without its line feed, valid until the next call. With io.EOF it may
// return a last line that has no line feed.
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

// lineBuffered reports whether another complete line has arrived, so that its events can join the
// batch.
func (p *producer) lineBuffered() bool {
	waiting, _ := p.in.Peek(p.in.Buffered()) // Peek returns only buffered bytes
	return bytes.IndexByte(waiting, '\n') >= 0
}
