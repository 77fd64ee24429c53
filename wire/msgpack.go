package wire

import (
	"errors"
	"fmt"

	"github.com/ruedahq/rueda/internal/base/msgpack"
)

// AppendMsgpack appends a message, given as JSON without spaces, as MessagePack. Lengths and
// integers take their shortest form. Text that is not such JSON becomes a string; no encoder of
// this package produces it.
func AppendMsgpack(b, text []byte) []byte { return msgpack.Append(b, text) }

// ErrMsgpack is wrapped by every error of AppendUnpacked.
var ErrMsgpack = errors.New("bad MessagePack")

// ReadMsgpack parses a client message in MessagePack. Its results are those of ReadMessage.
func ReadMsgpack(data []byte, visit func(bytes int)) (Message, *Fault) {
	text, err := AppendUnpacked(make([]byte, 0, 2*len(data)), data)
	if err != nil {
		return Message{}, NewFault(BadJSON, err.Error())
	}
	return ReadMessage(text, visit)
}

// AppendUnpacked appends a MessagePack value as JSON. It accepts the types that JSON has: nil,
// booleans, integers, decimals (extension type 1), UTF-8 strings, arrays, and maps with string
// keys, at most MaxDepth levels deep. It rejects floats, binary, other extensions and anything
// after the value, but not duplicate keys, which ParseJSON rejects. n bytes of input produce at
// most 6 n bytes.
func AppendUnpacked(b, data []byte) ([]byte, error) {
	b, err := msgpack.AppendJSON(b, data)
	if err != nil {
		return b, fmt.Errorf("%w: %w", ErrMsgpack, err)
	}
	return b, nil
}
