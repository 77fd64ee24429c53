//go:build unix

package replay

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestThreat48NamedPipe checks that a named pipe in the place of an order book file is an error.
// Opening it would wait for a writer, and no signal would end that.
func TestThreat48NamedPipe(t *testing.T) {
	for _, s := range samples() {
		if s.books == nil {
			continue
		}
		path := s.save(t, nil)
		books := strings.Replace(path, "message", "orderbook", 1)
		if err := os.Remove(books); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(books, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(path, Config{FromName: true})
		if err == nil || !strings.Contains(err.Error(), books+" is not a file") {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}
