// Package recording reads, writes and plays recordings of a stream: what a client received, with
// the receive times.
//
// A recording consists of lines of text, plain or compressed with gzip (.gz) or Zstandard (.zst):
//
//	{"rueda":"recording","version":1,"server":"https://api.broker.example",...}
//	1795184400000000000 {"type":"Subscription","code":200,"msg":"Subscribed",...}
//	1795184400000102400 {"type":"T","S":"GGAL","I":"GGAL|BYMA|24hs","N":1042,...}
//	1795184461000000000 {"recording":"disconnected","reason":"connection broken"}
//
// The first line is the [Meta]: the server, what was requested, and the definitions of the
// instruments as returned by GET /market/instruments. It has the markets and their calendar too if
// the server has them. Every other line is the receive time in Unix nanoseconds, a space, and a
// message or a [Note] of the recorder. A message is stored byte for byte as it was received, except
// for line breaks between its members. A note has the member "recording", a message the member
// "type".
//
// # Writing
//
//	w, err := recording.Create("day.jsonl.zst", recording.CreateConfig{})
//	err = w.Begin(&meta)
//	err = w.Message(time.Now().UnixNano(), msg)
//	err = w.Flush() // once a second; flushed lines survive a crash of the process
//	err = w.Close()
//
// [Continue] opens an existing recording, complete or truncated, to append to it.
//
// # Reading
//
// [Open] opens a recording and rejects other files; [Reader.Next] returns its lines. If the writer
// was killed, the recording ends in the middle of a line or of a compressed block. The complete
// lines are then returned, and [Reader.Torn] describes what is missing. Any other damage is an
// [*Error] with its position.
//
// [Decoder] decodes a message. [Events] converts a recording to market events, for a feed that
// plays it.
//
// # Concurrency
//
// A Writer is safe for concurrent use, so that one goroutine can flush while another writes. All
// other types must be used by one goroutine at a time, except Reader.Progress.
package recording
