package rest

import "github.com/ruedahq/rueda/internal/thread"

// What is asked of the past is not to hold up what is told of the present. A page of ten thousand rows takes milliseconds
// to read, to make and to write, and a thread that works on keeps its processor for a slice of as many: a message for a
// bot would wait as long. So all of that is done in pieces of some ten microseconds, with a thread.Breath in between.
//
// Threads that run only when nobody else does (SCHED_IDLE) were worse: they lose their processor amid what all
// goroutines wait for, such as a lock of the runtime, or a collection that has to stop them.
const (
	breathRows = 32       // of a page
	bodyPiece  = 32 << 10 // bytes of a body
)

// inPieces writes a body piece by piece, and gives way in between.
func inPieces(body []byte, write func([]byte) (int, error)) error {
	var breath thread.Breath
	for len(body) > 0 {
		n, err := write(body[:min(len(body), bodyPiece)])
		if err != nil {
			return err
		}
		body = body[n:]
		breath.Take()
	}
	return nil
}
