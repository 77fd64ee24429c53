package replay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ruedahq/rueda/market"
)

// A message must name its symbol within maxSniff lines, and previewSize bytes. What is read of a
// pipe until then stays in memory.
const maxSniff = 100

// sniff detects the market and the symbol of the recording from its first messages.
func (s *binance) sniff(in *lines) error {
	var f fields
	partials := 0
	for range maxSniff {
		if in.end > previewSize {
			break
		}
		line, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		var k kind
		if err == nil {
			if err = f.read(line); err == nil {
				k, err = f.kind()
			}
		}
		if err != nil && in.number == 1 {
			return unknownFormat{fmt.Errorf("%w (captures of Binance have lines of a receive time in Unix nanoseconds, a space and a message; other formats are %s)", s.at(in, err), formatList())}
		}
		if err != nil {
			return s.at(in, err)
		}
		if k == partial {
			partials++
		}
		if k.played() && k != snapshot {
			s.futures = f.futures(k)
			if err := s.define(&f); err != nil {
				return s.at(in, err)
			}
			return nil
		}
	}
	if in.number == 1 {
		return fmt.Errorf("replay %s: the file is empty", s.path)
	}
	none := fmt.Errorf("replay %s: no trade, aggTrade, bookTicker or depth message in the first %d lines", s.path, in.number)
	if partials > 0 {
		return fmt.Errorf("%w, only partial books (depth5, depth10, depth20). They do not show changes below their levels, and are not played: record the stream depth and a snapshot", none)
	}
	return none
}

// at adds the position to an error.
func (s *binance) at(in *lines, err error) error {
	at := 0
	if bad, ok := errors.AsType[*scanError](err); ok {
		at = bad.at
	}
	return in.fault(s.path, at, err)
}

// read parses a line and checks it against the market and the symbol of the recording.
func (s *binance) read(f *fields, line []byte) (kind, error) {
	if err := f.read(line); err != nil {
		return other, err
	}
	k, err := f.kind()
	if err != nil || !k.played() {
		return k, err
	}
	if k != snapshot && string(f.symbol) != s.instrument.ID.Symbol {
		return other, &scanError{0, fmt.Sprintf("symbol %q in a recording of %s", f.symbol, s.instrument.ID.Symbol)}
	}
	if f.futures(k) != s.futures {
		return other, &scanError{0, "message of another market than those before: futures and spot are two recordings"}
	}
	return k, nil
}

// define creates the definition from a message.
func (s *binance) define(f *fields) error {
	in := market.Instrument{
		ID:             market.InstrumentID{Symbol: string(f.symbol), Market: "BINANCE", Term: "SPOT"},
		Kind:           "spot",
		Currency:       currency(string(f.symbol)),
		PriceDecimals:  f.priceDecimals,
		SizeDecimals:   f.sizeDecimals,
		QuotesFromFeed: true,
		VirtualClock:   true,
		Listed:         cmp.Or(f.eventTime(), f.receive),
	}
	if s.futures {
		in.ID.Term, in.Kind = "PERP", "perpetual"
	}
	in.Name = in.ID.Symbol + " " + in.Kind
	if err := in.Validate(); err != nil {
		return err
	}
	s.instrument = in
	return nil
}

// currency returns the currency at the end of a symbol, "" if it is unknown.
func currency(symbol string) string {
	for _, c := range [...]string{"FDUSD", "USDT", "USDC", "TUSD", "BUSD", "BTC", "ETH", "BNB", "EUR", "TRY", "BRL", "ARS"} {
		if len(symbol) > len(c) && strings.HasSuffix(symbol, c) {
			return c
		}
	}
	return ""
}
