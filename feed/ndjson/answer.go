package ndjson

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// lingerTimeout bounds the time a producer has to read why its connection is closed.
const lingerTimeout = time.Second

// fault answers an invalid line. If the sink has rejected its event, the answer says of which
// instrument, with the word for the cause.
func (p *producer) fault(line int, f *wire.Fault, refused *market.Refused) {
	p.faults++
	p.source.count(func(c *Stats) { c.Faults++ })
	answer := *f
	answer.Msg = "line " + strconv.Itoa(line) + ": " + f.Msg
	p.answer(wire.AppendError(nil, &answer, nil, func(b []byte) []byte {
		b = fmt.Appendf(b, `,"line":%d`, line)
		if refused != nil && refused.ID != (market.InstrumentID{}) {
			b = wire.AppendString(append(b, `,"refused":`...), refused.Reason)
			b = wire.AppendString(append(b, `,"instrument":`...), refused.ID.String())
		}
		return b
	}))
}

// warn answers a line that was accepted but that may not have the effect its sender expects.
func (p *producer) warn(reason, msg string) {
	b := fmt.Appendf(nil, `{"type":"Warning","code":200,"reason":"%s","msg":`, reason)
	b = wire.AppendString(b, "line "+strconv.Itoa(p.line)+": "+msg)
	p.answer(fmt.Appendf(b, `,"line":%d}`, p.line))
}

// answer writes a line to the producer. An error is returned by the next flush.
func (p *producer) answer(line []byte) {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.allowWrite()
	_, _ = p.out.Write(append(line, '\n')) // a bufio.Writer keeps its error
}

// flush sends the buffered answers.
func (p *producer) flush() error {
	p.writing.Lock()
	defer p.writing.Unlock()
	if p.out.Buffered() > 0 {
		p.allowWrite()
	}
	return p.out.Flush()
}

func (p *producer) allowWrite() {
	// an error shows at the next write
	_ = p.conn.SetWriteDeadline(time.Now().Add(p.source.config.AnswerTimeout))
}

// closeWithError sends the producer the reason and ends the connection. It then reads for a moment
// what the producer is still sending, because closing with unread bytes would discard the answer.
func (p *producer) closeWithError(f *wire.Fault) {
	p.answer(wire.AppendError(nil, f, nil, nil))
	if err := p.flush(); err != nil {
		return // the connection is lost
	}
	if half, ok := p.conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // the connection may be lost
	}
	_ = p.conn.SetReadDeadline(time.Now().Add(lingerTimeout)) // an error shows at the next read
	_, _ = io.CopyN(io.Discard, p.conn, 4*MaxLine)            // the bytes are discarded
}
