package jetstream

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestErrorsAreLoggedSeldom checks that errors of a connection that come in great number are logged
// at once, and then with their number.
func TestErrorsAreLoggedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		handle := logErrors(slog.New(slog.NewTextHandler(&text, nil)))
		for range 1000 {
			handle(nil, nil, errors.New("slow consumer"))
			time.Sleep(15 * time.Millisecond)
		}
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "count=1") || !strings.Contains(lines[1], "count=667") {
			t.Errorf("logged %q", lines)
		}
	})
}
