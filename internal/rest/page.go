package rest

import (
	"encoding/base64"
	"strconv"

	"github.com/ruedahq/rueda/wire"
)

// Bounds of the rows of a page.
const (
	defaultLimit = 100
	maxLimit     = 1000
)

// maxCursor bounds a cursor, in bytes; the longest key, an account's id or an
// instrument's, fits.
const maxCursor = 256

// page is which rows of a list a request wants: limit of them after the row with
// the key after, from the first where it is empty. A cursor is that key and not a
// place, so that rows may come and go between two pages.
type page struct {
	limit int
	after string
}

// page reads limit and cursor. kind is one letter that tells the cursors of one
// list from those of another.
func (p params) page(kind byte) (page, *wire.Failure) {
	var pg page
	var f *wire.Failure
	if pg.limit, f = p.limit(defaultLimit, maxLimit); f != nil {
		return pg, f
	}
	if text := p.get("cursor"); text != "" {
		key, err := base64.RawURLEncoding.Strict().DecodeString(text)
		if err != nil || len(text) > maxCursor || len(key) < 2 || key[0] != kind {
			return pg, badCursor()
		}
		pg.after = string(key[1:])
	}
	return pg, nil
}

// limit returns the number of rows that a request wants, from 1 to most.
func (p params) limit(usual, most int) (int, *wire.Failure) {
	text := p.get("limit")
	if text == "" {
		return usual, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || n < 1 || n > uint64(most) {
		return 0, wire.NewFailure(wire.BadField, "limit", "must be a whole number from 1 to "+strconv.Itoa(most))
	}
	return int(n), nil
}

func badCursor() *wire.Failure {
	return wire.NewFailure(wire.BadField, "cursor", "is not a next_cursor of this list")
}

// appendNext appends the next_cursor of a page whose last row has that key.
func appendNext(b []byte, kind byte, key string) []byte {
	b = append(b, `,"next_cursor":"`...)
	b = base64.RawURLEncoding.AppendEncode(b, append([]byte{kind}, key...))
	return append(b, '"')
}
