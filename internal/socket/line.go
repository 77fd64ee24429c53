package socket

// What reading a line gives instead of a number of bytes.
const (
	lineEmpty  = -1 // nothing is there yet
	lineBroken = -2
)

// noLine is the descriptor of a connection that has none of its own.
const noLine = -1
