// Package recording reads, writes and plays recordings of a stream: what a client of a server
// received, with the time when.
//
// A recording is lines of text, plain, gzip (.gz) or Zstandard (.zst):
//
//	{"rueda":"recording","version":1,"server":"https://api.broker.example","began":"2026-11-20T14:30:00.000000000Z",...}
//	1795184400000000000 {"type":"Subscription","code":200,"msg":"Subscribed","epoch":"e7k2",...}
//	1795184400000102400 {"type":"T","S":"GGAL","I":"GGAL|BYMA|24hs","N":1042,...}
//	1795184461000000000 {"recording":"disconnected","reason":"connection broken"}
//
// The first line is the [Meta]: of which server, of what, and the definitions of the instruments as
// GET /market/instruments gave them, with the markets and their calendar where the server has these, so that the
// file explains itself. Every other line is the receive
// time in Unix nanoseconds, a space, and either a message as it was received, byte
// for byte but for line ends between its members, or a [Note] of the recorder. A note
// has the member "recording", a message the member "type".
//
// # Writing
//
//	w, err := recording.Create("day.jsonl.zst", recording.CreateConfig{})
//	err = w.Begin(&meta)
//	err = w.Message(time.Now().UnixNano(), msg)
//	err = w.Flush() // once a second: what was flushed survives the death of the process
//	err = w.Close()
//
// [Continue] takes up a recording where it ended, whole or torn.
//
// # Reading
//
// [Open] tells a recording from other files and [Reader.Next] gives its lines. A recording whose
// writer died ends in the middle of a line or of a compressed block: the lines before are given,
// and [Reader.Torn] says so. Anything else that is wrong is an [*Error] with its place.
//
// [Decoder] takes a message apart. [Events] turns a recording into market events, for a feed that
// plays it.
//
// # Concurrency
//
// A Writer is safe for concurrent use, so that whoever flushes need not be who writes. All
// else belongs to one goroutine, but for Reader.Progress, which any may ask for.
package recording
