package auth

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is a text that must not reach a log, such as a token. It prints, logs and marshals as
// Redacted in every format. Reveal returns the text. The zero Secret is the empty text. The text is
// behind a pointer because fmt prints unexported struct fields without calling their methods: it
// then prints the pointer.
type Secret struct {
	text *string
}

// Redacted is printed instead of a Secret.
const Redacted = "[redacted]"

// NewSecret wraps text.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal returns the text, for the answer to the client.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String returns Redacted.
func (s Secret) String() string { return Redacted }

// GoString returns Redacted.
func (s Secret) GoString() string { return Redacted }

// Format writes Redacted for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Redacted) }

// LogValue returns Redacted.
func (s Secret) LogValue() slog.Value { return slog.StringValue(Redacted) }

// MarshalText returns Redacted. encoding/json and similar packages call it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(Redacted), nil }
