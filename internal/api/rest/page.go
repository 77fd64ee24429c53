package rest

import (
	"encoding/base64"

	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/wire"
)

// Default and maximum number of rows of a page.
const (
	defaultLimit = 100
	maxLimit     = 1000
)

// page says which part of a list a request wants: up to limit rows after the row whose key is
// after. An empty key means the first row. Cursors contain the key and no index, so that rows may
// be added and removed between two pages.
type page struct {
	limit int
	after string
}

// readPage reads the parameters limit and cursor. kind is the letter that marks the cursors of the
// list; a cursor of another list is refused.
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

// appendNext appends the member next_cursor for a page that ends with the row that has this key.
func appendNext(b []byte, kind byte, key string) []byte {
	b = append(b, `,"next_cursor":"`...)
	b = base64.RawURLEncoding.AppendEncode(b, append([]byte{kind}, key...))
	return append(b, '"')
}
