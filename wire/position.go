package wire

// PositionType is the type of the message that AppendPosition appends.
const PositionType = "Position"

// AppendPosition appends a message for a host that converts the stream to another form. It carries
// the position of the stream, and is never sent on a socket.
func AppendPosition(b []byte, position string) []byte {
	b = append(b, `{"type":"`+PositionType+`","position":`...)
	b = AppendString(b, position)
	return append(b, '}')
}
