package ndjson

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/ruedahq/rueda/wire"
)

// farewell is what a producer that is closed has to read why.
const farewell = time.Second

// fault answers a bad line.
func (p *producer) fault(line int, f *wire.Fault) {
	p.faults++
	p.source.count(func(c *Stats) { c.Faults++ })
	answer := *f
	answer.Msg = "line " + strconv.Itoa(line) + ": " + f.Msg
	p.answer(wire.AppendError(nil, &answer, nil, fmt.Appendf(nil, `,"line":%d`, line)))
}

// warn answers a line that was taken, but not as its sender may think.
func (p *producer) warn(reason, msg string) {
	b := fmt.Appendf(nil, `{"type":"Warning","code":200,"reason":"%s","msg":`, reason)
	b = wire.AppendString(b, "line "+strconv.Itoa(p.line)+": "+msg)
	p.answer(fmt.Appendf(b, `,"line":%d}`, p.line))
}

// answer writes a line to the producer. An error shows at the next flush.
func (p *producer) answer(line []byte) {
	p.allowWrite()
	_, _ = p.out.Write(append(line, '\n')) // a bufio.Writer keeps its error
}

// flush sends what was answered.
func (p *producer) flush() error {
	if p.out.Buffered() > 0 {
		p.allowWrite()
	}
	return p.out.Flush()
}

func (p *producer) allowWrite() {
	_ = p.conn.SetWriteDeadline(time.Now().Add(p.source.config.AnswerTimeout)) // fails where the next write does
}

// refuse says why the connection ends. What the producer is still sending
// is read for a moment, since closing on unread bytes would discard the answer on its way.
func (p *producer) refuse(f *wire.Fault) {
	p.answer(wire.AppendError(nil, f, nil, nil))
	if err := p.flush(); err != nil {
		return // it is gone
	}
	if half, ok := p.conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // it may be gone
	}
	_ = p.conn.SetReadDeadline(time.Now().Add(farewell)) // fails where the next read does
	_, _ = io.CopyN(io.Discard, p.conn, 4*MaxLine)       // nothing of it is wanted
}
