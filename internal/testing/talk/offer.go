package talk

import (
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ruedahq/rueda/wire"
)

// Offer has what a client requests in its handshake.
type Offer struct {
	Bearer string      // of the Authorization header; "": none
	Format wire.Format // requested by the subprotocol, with or without permessage-deflate
}

// parseOffer reads the rest of an offer step.
func parseOffer(text string) (wire.Format, error) {
	name, rest, _ := strings.Cut(text, " ")
	f, ok := map[string]wire.Format{"json": wire.JSON, "batch": wire.Batch, "msgpack": wire.Msgpack}[name]
	switch {
	case !ok || rest != "" && rest != "deflate":
		return f, errors.New("offer json, batch or msgpack, and deflate behind it or nothing")
	case rest != "":
		f |= wire.Deflate
	}
	return f, nil
}

// Unpack returns the messages of a frame that a server sent, as JSON texts: one message, or those
// of a batch. first is the frame's first byte. Unpack returns an error if the frame is not of
// format f.
func Unpack(f wire.Format, first byte, payload []byte) ([]string, error) {
	const final, rsv1, text, binary = 0x80, 0x40, 1, 2
	if first&rsv1 != 0 && f&wire.Deflate != 0 {
		small := len(payload)
		// Add the bytes that the sender omits, and an empty last block.
		r := flate.NewReader(strings.NewReader(string(payload) + "\x00\x00\xff\xff\x01\x00\x00\xff\xff"))
		var err error
		if payload, err = io.ReadAll(r); err != nil {
			return nil, fmt.Errorf("inflate a frame: %w", err)
		}
		if len(payload) < 200 || len(payload) <= small {
			return nil, fmt.Errorf("%d bytes compressed to %d", len(payload), small)
		}
		first &^= rsv1
	}
	f &^= wire.Deflate
	switch want := byte(final | text); {
	case f == wire.Msgpack && first == final|binary:
		var err error
		if payload, err = wire.AppendUnpacked(nil, payload); err != nil {
			return nil, err
		}
	case f == wire.Msgpack || first != want:
		return nil, fmt.Errorf("a frame that begins with %02x", first)
	}
	v, err := wire.ParseJSON(payload)
	if err != nil {
		return nil, err
	}
	items := []wire.Value{v}
	if f == wire.Batch {
		if items = v.Items; v.Kind != wire.Array || len(items) == 0 {
			return nil, fmt.Errorf("not an array of messages: %s", payload)
		}
	}
	var all []string
	for _, item := range items {
		if item.Kind != wire.Object {
			return nil, fmt.Errorf("not a JSON object: %s", item.Raw)
		}
		all = append(all, string(item.Raw))
	}
	return all, nil
}
