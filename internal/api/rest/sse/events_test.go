package sse

import (
	"testing"

	"github.com/ruedahq/rueda/internal/base/frame"
	"github.com/ruedahq/rueda/wire"
)

// TestEvents checks the events for pieces of a session's output.
func TestEvents(t *testing.T) {
	const data, more, position = `{"type":"T","I":"A|B|CI"}`, `{"type":"Q","I":"A|B|CI"}`, `{"type":"Position","position":"e1:7"}`
	const warning = `{"type":"Warning","reason":"shutting_down","reconnect_in_ms":1500}`
	const answer = `{"type":"Subscription","position":"e1:5"}`
	for _, c := range []struct {
		name        string
		pieces      [][]string
		want, lines string
	}{
		{"a position is the id of the event before it", [][]string{{data, more, position}},
			"retry: 3000\ndata: " + data + "\n\nid: e1:7\ndata: " + more + "\n\n", data + "\n" + more + "\n"},
		{"without a position there is no id", [][]string{{data}, {more}},
			"retry: 3000\ndata: " + data + "\n\ndata: " + more + "\n\n", data + "\n" + more + "\n"},
		{"a position alone is an id without data", [][]string{{data}, {position}},
			"retry: 3000\ndata: " + data + "\n\nid: e1:7\n\n", data + "\n"},
		{"an answer has its own position", [][]string{{answer, data}},
			"retry: 3000\nid: e1:5\ndata: " + answer + "\n\ndata: " + data + "\n\n", answer + "\n" + data + "\n"},
		{"a ping is a comment", [][]string{{answer, wire.Ping, data}},
			"retry: 3000\nid: e1:5\ndata: " + answer + "\n\n:\n\ndata: " + data + "\n\n", answer + "\n" + data + "\n"},
		{"a shutdown says when to reconnect", [][]string{{data, warning}},
			"retry: 3000\ndata: " + data + "\n\nretry: 1500\ndata: " + warning + "\n\n",
			data + "\n" + warning + "\n"},
	} {
		for lines, want := range map[bool]string{false: c.want, true: c.lines} {
			s := &sseWriter{lines: lines}
			for _, piece := range c.pieces {
				for _, msg := range piece {
					s.frames = wire.AppendText(s.frames, []byte(msg))
				}
				s.addFrames()
			}
			if string(s.out) != want || s.ended {
				t.Errorf("%s: lines %v: got %q, want %q, ended %v", c.name, lines, s.out, want, s.ended)
			}
			s.frames, s.out = append(wire.AppendText(nil, []byte(data)), frame.Close, 0), nil
			if s.addFrames(); !s.ended || len(s.out) == 0 {
				t.Errorf("%s: lines %v: after a close frame ended %v, %q", c.name, lines, s.ended, s.out)
			}
		}
	}
}
