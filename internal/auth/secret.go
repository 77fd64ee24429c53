package auth

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is a text that must not reach a log, such as a token. It prints, logs and
// marshals as Redacted in every format; Reveal gives the text. The zero Secret is
// the empty text. The text sits behind a pointer because fmt prints the fields of
// a struct that it may not call methods on: it then prints the pointer.
type Secret struct {
	text *string
}

// Redacted stands for a Secret wherever one is printed.
const Redacted = "[redacted]"

// NewSecret wraps text.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal is the text itself, for the answer that must carry it.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String is Redacted.
func (s Secret) String() string { return Redacted }

// GoString is Redacted.
func (s Secret) GoString() string { return Redacted }

// Format writes Redacted whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Redacted) }

// LogValue is Redacted.
func (s Secret) LogValue() slog.Value { return slog.StringValue(Redacted) }

// MarshalText is Redacted; encoding/json and its like use it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(Redacted), nil }
