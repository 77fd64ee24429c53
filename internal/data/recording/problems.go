package recording

import (
	"fmt"

	"github.com/ruedahq/rueda/wire"
)

// Problems counts the problems of a stream while it was recorded.
type Problems struct {
	Disconnects int // lost connections
	Conflated   int // warnings that quotes and books are conflated because the client is slow
	Lost        int // ranges that the server could not replay
}

// Add counts a warning, given its reason.
func (t *Problems) Add(reason wire.Reason) {
	if reason == "slow_client" {
		t.Conflated++
	}
}

// String returns the end of a sentence that lists the problems, "" if there were none.
func (t *Problems) String() string {
	text := ""
	if t.Conflated > 0 {
		text += fmt.Sprintf("; the server warned %s that it conflates quotes and books", times(t.Conflated))
	}
	if t.Disconnects > 0 {
		text += fmt.Sprintf("; the connection was lost %s", times(t.Disconnects))
	}
	if t.Lost > 0 {
		text += fmt.Sprintf("; %d ranges were lost, see its lines %q", t.Lost, Lost)
	}
	return text
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
