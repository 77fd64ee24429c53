package rest

import (
	"slices"

	"github.com/ruedahq/rueda/internal/sched"
)

// A page of ten thousand rows takes milliseconds to read, encode and write. The reader yields after
// so much work, so that messages of the stream do not wait for all of it.
const (
	yieldRows  = 256
	yieldBytes = 64 << 10
)

// inPieces writes a body in pieces and yields between them.
func inPieces(body []byte, write func([]byte) (int, error)) error {
	for piece := range slices.Chunk(body, yieldBytes) {
		if _, err := write(piece); err != nil {
			return err
		}
		sched.Yield()
	}
	return nil
}
