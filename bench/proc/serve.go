package proc

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Handler answers one kind of request.
type Handler func(args json.RawMessage) (any, error)

// Handle returns a Handler for a function with typed arguments.
func Handle[A, R any](f func(A) (R, error)) Handler {
	return func(raw json.RawMessage) (any, error) {
		var args A
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &args); err != nil {
				return nil, fmt.Errorf("arguments: %w", err)
			}
		}
		return f(args)
	}
}

type request struct {
	Do   string          `json:"do"`
	Args json.RawMessage `json:"args,omitempty"`
}

type answer struct {
	Error  string          `json:"error,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// Serve reads one JSON request after another from in, calls the handler of its name, and writes the
// answer to out as a line. It returns nil when in ends.
func Serve(in io.Reader, out io.Writer, handlers map[string]Handler) error {
	requests := json.NewDecoder(bufio.NewReader(in))
	for {
		var q request
		if err := requests.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		line, err := json.Marshal(respond(handlers, &q))
		if err != nil {
			return err
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("answer %s: %w", q.Do, err)
		}
	}
}

func respond(handlers map[string]Handler, q *request) (a answer) {
	h := handlers[q.Do]
	if h == nil {
		return answer{Error: fmt.Sprintf("nothing here is called %q", q.Do)}
	}
	v, err := h(q.Args)
	if err == nil {
		a.Result, err = json.Marshal(v)
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}
