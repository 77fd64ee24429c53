package rest

import (
	"encoding/base64"

	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/wire"
)

// Limits of the rows of a page.
const (
	defaultLimit = 100
	maxLimit     = 1000
)

// page is the part of a list that a request wants: up to limit rows after the row with the key
// after, or from the first one if it is empty. A cursor is that key, so that rows may be added and
// removed between two pages.
type page struct {
	limit int
	after string
}

// readPage reads limit and cursor. kind is a letter that distinguishes the cursors of lists.
func readPage(p api.Params, kind byte) (page, *wire.Failure) {
	var pg page
	var f *wire.Failure
	if pg.limit, f = p.Limit(defaultLimit, maxLimit); f != nil {
		return pg, f
	}
	if text := p.Get("cursor"); text != "" {
		key, err := base64.RawURLEncoding.Strict().DecodeString(text)
		if err != nil || len(text) > api.MaxCursor || len(key) < 2 || key[0] != kind {
			return pg, api.BadCursor()
		}
		pg.after = string(key[1:])
	}
	return pg, nil
}

// appendNext appends the next_cursor of a page whose last row has that key.
func appendNext(b []byte, kind byte, key string) []byte {
	b = append(b, `,"next_cursor":"`...)
	b = base64.RawURLEncoding.AppendEncode(b, append([]byte{kind}, key...))
	return append(b, '"')
}
