package httpusers

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"
)

// Limits of request values, in bytes.
const (
	maxUsername = 128
	maxPassword = 1024
	maxID       = 64
)

func isText(texts ...string) bool {
	for _, s := range texts {
		if !utf8.ValidString(s) {
			return false
		}
	}
	return true
}

// decode decodes exactly one JSON object. It ignores unknown keys, so that a service can add some.
// Its errors do not quote values.
func decode(text []byte, into any) error { return decodeObject(text, into, false) }

// decodeStrict decodes a JSON value of known keys. An empty text changes nothing.
func decodeStrict(text []byte, into any) error {
	if len(text) == 0 {
		return nil
	}
	return decodeValue(text, into, true)
}

func decodeObject(text []byte, into any, strict bool) error {
	if !utf8.Valid(text) || !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) {
		return errors.New("the answer is no JSON object")
	}
	return decodeValue(text, into, strict)
}

func decodeValue(text []byte, into any, strict bool) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if strict {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(into); err != nil {
		return describe(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the answer goes on behind its JSON object")
	}
	return nil
}

func describe(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return errors.New("the answer has a " + wrong.Value + " as " + wrong.Field)
	}
	return errors.New("the answer is not as it should be: " + err.Error())
}
