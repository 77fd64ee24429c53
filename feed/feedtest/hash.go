package feedtest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"sync"

	"github.com/ruedahq/rueda/market"
)

// HashSink is a feed.Sink that hashes definitions and events in order, independently of their
// batches. Two runs have the same sum if they published the same. The zero HashSink is ready to
// use.
type HashSink struct {
	// Base, in Unix nanoseconds, is subtracted from every known time, so that runs with different
	// starts can be compared. Set it before use.
	Base int64

	mu     sync.Mutex
	table  table
	hash   hash.Hash
	buf    []byte
	events int
}

// Define implements feed.Sink.
func (s *HashSink) Define(in market.Instrument) (market.Handle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, err := s.table.define(in)
	if err != nil {
		return 0, err
	}
	if in.Listed != 0 {
		in.Listed -= s.Base
	}
	s.write(fmt.Appendf(s.buf[:0], "%+v\n", in))
	return h, nil
}

// Publish implements feed.Sink.
func (s *HashSink) Publish(events []market.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range events {
		e := &events[i]
		at := s.table.index(e.Handle)
		if at < 0 {
			return fmt.Errorf("hash event: unknown handle %d", e.Handle)
		}
		s.write(s.appendEvent(s.buf[:0], at, e))
		s.events++
	}
	return nil
}

func (s *HashSink) write(b []byte) {
	if s.hash == nil {
		s.hash = sha256.New()
	}
	s.hash.Write(b)
	s.buf = b
}

// appendEvent encodes every field except Receive, which does not describe the market. Lists and
// strings are preceded by their length, so that the encoding is unambiguous.
func (s *HashSink) appendEvent(b []byte, index int, e *market.Event) []byte {
	b = append(b, byte(e.Kind), byte(e.Side), byte(e.Phase))
	for _, v := range [...]int64{
		int64(index), s.relative(e.Time), s.relative(e.Until), int64(e.Price), int64(e.Size), int64(e.OldPrice), int64(e.OldSize),
		int64(e.PreviousClose), int64(e.Settlement), int64(e.OpenInterest),
	} {
		b = binary.AppendVarint(b, v)
	}
	b = binary.AppendUvarint(b, e.Sequence)
	b = binary.AppendUvarint(b, e.OrderID)
	if e.Kind == market.KindOrderReplace {
		b = binary.AppendUvarint(b, e.NewID)
	}
	b = appendString(b, e.TradeID)
	b = appendString(b, e.Reason)
	b = e.TradeDetails.AppendBinary(b)
	for _, levels := range [...][]market.Level{e.Bids, e.Asks} {
		b = binary.AppendUvarint(b, uint64(len(levels)))
		for _, l := range levels {
			b = binary.AppendVarint(b, int64(l.Price))
			b = binary.AppendVarint(b, int64(l.Size))
			b = binary.AppendUvarint(b, uint64(l.Orders))
		}
	}
	return b
}

func (s *HashSink) relative(t int64) int64 {
	if t == 0 {
		return 0
	}
	return t - s.Base
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Sum returns the current hash, in hexadecimal.
func (s *HashSink) Sum() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(s.buf[:0])
	return hex.EncodeToString(s.hash.Sum(nil))
}

// Events returns the number of events hashed.
func (s *HashSink) Events() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events
}

// CountSink is a feed.Sink that only counts, to measure what a source itself costs. The zero
// CountSink is ready to use.
type CountSink struct {
	mu     sync.Mutex
	table  table
	events int
	trades int
}

// Define implements feed.Sink.
func (s *CountSink) Define(in market.Instrument) (market.Handle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.define(in)
}

// Publish implements feed.Sink.
func (s *CountSink) Publish(events []market.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events += len(events)
	for i := range events {
		if events[i].Kind == market.KindTrade {
			s.trades++
		}
	}
	return nil
}

// Count returns the number of events and the number of trades among them.
func (s *CountSink) Count() (events, trades int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events, s.trades
}
