package wire

// PositionMark is the type of AppendPosition's message.
const PositionMark = "Position"

// AppendPosition appends a message that no client of the socket sees: it tells a host that writes
// the stream in another form how far it has come.
func AppendPosition(b []byte, position string) []byte {
	b = append(b, `{"type":"`+PositionMark+`","position":`...)
	b = AppendString(b, position)
	return append(b, '}')
}
