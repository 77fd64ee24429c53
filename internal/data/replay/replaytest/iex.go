package replaytest

import (
	"encoding/binary"

	"github.com/ruedahq/rueda/market"
)

// IEX writes messages of TOPS 1.6 and DEEP 1.0 and puts them into segments of IEX-TP. Times are
// Unix nanoseconds, prices have four decimals.
type IEX struct {
	Protocol uint16 // TOPS or DEEP
	Channel  uint32 // 0: 1
	Session  uint32
	Next     uint64 // number of the next message; 0: 1
	messages []byte
	count    int
}

// Protocols of IEX.
const (
	TOPS = 0x8003
	DEEP = 0x8004
)

// message begins a message. other is the byte after the type.
func (w *IEX) message(kind, other byte, size int, t int64, symbol string) []byte {
	w.messages = binary.LittleEndian.AppendUint16(w.messages, uint16(size))
	from := len(w.messages)
	w.messages = append(w.messages, make([]byte, size)...)
	m := w.messages[from:]
	m[0], m[1] = kind, other
	binary.LittleEndian.PutUint64(m[2:], uint64(t))
	if size >= 18 {
		text(m[10:18], symbol)
	}
	w.count++
	return m
}

// System writes a message of type S.
func (w *IEX) System(t int64, code byte) { w.message('S', code, 10, t, "") }

// Directory writes a message of type D.
func (w *IEX) Directory(t int64, symbol string, close int64) {
	m := w.message('D', 0, 31, t, symbol)
	binary.LittleEndian.PutUint32(m[18:], 100)
	binary.LittleEndian.PutUint64(m[22:], uint64(close))
}

// Status writes a message of type H.
func (w *IEX) Status(t int64, symbol string, state byte, reason string) {
	text(w.message('H', state, 22, t, symbol)[18:], reason)
}

// Operational writes a message of type O.
func (w *IEX) Operational(t int64, symbol string, state byte) { w.message('O', state, 18, t, symbol) }

// Quote writes a message of type Q.
func (w *IEX) Quote(t int64, symbol string, bidSize uint32, bid, ask int64, askSize uint32) {
	m := w.message('Q', 0, 42, t, symbol)
	binary.LittleEndian.PutUint32(m[18:], bidSize)
	binary.LittleEndian.PutUint64(m[22:], uint64(bid))
	binary.LittleEndian.PutUint64(m[30:], uint64(ask))
	binary.LittleEndian.PutUint32(m[38:], askSize)
}

// Level writes a message of type 8 for a bid, 5 for an ask.
func (w *IEX) Level(t int64, symbol string, kind byte, flags byte, size uint32, price int64) {
	m := w.message(kind, flags, 30, t, symbol)
	binary.LittleEndian.PutUint32(m[18:], size)
	binary.LittleEndian.PutUint64(m[22:], uint64(price))
}

// Trade writes a message of type T, or B for a cancellation.
func (w *IEX) Trade(t int64, symbol string, kind, flags byte, size uint32, price int64, id uint64) {
	m := w.message(kind, flags, 38, t, symbol)
	binary.LittleEndian.PutUint32(m[18:], size)
	binary.LittleEndian.PutUint64(m[22:], uint64(price))
	binary.LittleEndian.PutUint64(m[30:], id)
}

// Official writes a message of type X.
func (w *IEX) Official(t int64, symbol string, kind byte, price int64) {
	binary.LittleEndian.PutUint64(w.message('X', kind, 26, t, symbol)[18:], uint64(price))
}

// Other writes a message of any type and size.
func (w *IEX) Other(t int64, symbol string, kind byte, size int) { w.message(kind, 0, size, t, symbol) }

// Segment returns the messages since the last call as a segment of IEX-TP. Without messages it is a
// heartbeat.
func (w *IEX) Segment(sent int64) []byte {
	if w.Next == 0 {
		w.Next = 1
	}
	channel := w.Channel
	if channel == 0 {
		channel = 1
	}
	le := binary.LittleEndian
	b := []byte{1, 0}
	b = le.AppendUint16(b, w.Protocol)
	b = le.AppendUint32(b, channel)
	b = le.AppendUint32(b, w.Session)
	b = le.AppendUint16(b, uint16(len(w.messages)))
	b = le.AppendUint16(b, uint16(w.count))
	b = le.AppendUint64(b, 0) // offset in the stream
	b = le.AppendUint64(b, w.Next)
	b = le.AppendUint64(b, uint64(sent))
	b = append(b, w.messages...)
	w.Next += uint64(w.count)
	w.messages, w.count = w.messages[:0], 0
	return b
}

// Len returns the number of messages in the current segment.
func (w *IEX) Len() int { return w.count }

// Capture writes a pcap or pcapng file of UDP datagrams to Bytes.
type Capture struct {
	Bytes  []byte
	Blocks bool // pcapng
	Big    bool // big-endian
	Nano   bool // times in ns; otherwise in us
	VLAN   int  // number of VLAN tags
	Link   uint32
	order  binary.AppendByteOrder
}

// Links of a capture.
const (
	LinkEthernet = 1
	LinkRaw      = 101
	LinkCooked   = 113
)

// Head writes the header of the file.
func (c *Capture) Head() {
	c.order = binary.LittleEndian
	if c.Big {
		c.order = binary.BigEndian
	}
	if c.Link == 0 {
		c.Link = LinkEthernet
	}
	o := c.order
	if !c.Blocks {
		magic := uint32(0xa1b2c3d4)
		if c.Nano {
			magic = 0xa1b23c4d
		}
		c.Bytes = o.AppendUint32(c.Bytes, magic)
		c.Bytes = o.AppendUint16(c.Bytes, 2)
		c.Bytes = o.AppendUint16(c.Bytes, 4)
		c.Bytes = append(c.Bytes, make([]byte, 8)...)
		c.Bytes = o.AppendUint32(c.Bytes, 65535)
		c.Bytes = o.AppendUint32(c.Bytes, c.Link)
		return
	}
	section := o.AppendUint32(nil, 0x1a2b3c4d)
	section = o.AppendUint16(section, 1)
	section = o.AppendUint16(section, 0)
	c.Block(0x0a0d0d0a, append(section, 255, 255, 255, 255, 255, 255, 255, 255))
	device := o.AppendUint16(nil, uint16(c.Link))
	device = append(device, 0, 0, 0, 0, 0, 0)
	if c.Nano {
		device = o.AppendUint16(device, 9)
		device = o.AppendUint16(device, 1)
		device = append(device, 9, 0, 0, 0)
	}
	device = append(device, 0, 0, 0, 0) // end of options
	c.Block(1, device)
}

// Block writes a block of a pcapng file.
func (c *Capture) Block(kind uint32, body []byte) {
	for len(body)%4 != 0 {
		body = append(body, 0)
	}
	size := uint32(12 + len(body))
	c.Bytes = c.order.AppendUint32(c.Bytes, kind)
	c.Bytes = c.order.AppendUint32(c.Bytes, size)
	c.Bytes = append(c.Bytes, body...)
	c.Bytes = c.order.AppendUint32(c.Bytes, size)
}

// Datagram writes a packet with a payload.
func (c *Capture) Datagram(t int64, payload []byte) { c.Packet(t, c.Frame(payload), 0) }

// Frame returns a packet with a payload, as UDP over IPv4.
func (c *Capture) Frame(payload []byte) []byte {
	be := binary.BigEndian
	var b []byte
	switch c.Link {
	case LinkEthernet:
		b = append(b, 1, 0, 0x5e, 1, 2, 3, 4, 5, 6, 7, 8, 9)
		for range c.VLAN {
			b = append(b, 0x81, 0, 0, 42)
		}
		b = append(b, 8, 0)
	case LinkCooked:
		b = append(b, 0, 0, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 8, 0)
	}
	b = append(b, 0x45, 0)
	b = be.AppendUint16(b, uint16(28+len(payload)))
	b = append(b, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 233, 215, 21, 4)
	b = be.AppendUint16(b, 10378)
	b = be.AppendUint16(b, 10378)
	b = be.AppendUint16(b, uint16(8+len(payload)))
	b = append(b, 0, 0)
	return append(b, payload...)
}

// Packet writes a packet whose last cut bytes were not captured.
func (c *Capture) Packet(t int64, frame []byte, cut int) {
	o := c.order
	unit := int64(1000)
	if c.Nano {
		unit = 1
	}
	have := frame[:len(frame)-cut]
	if c.Blocks {
		b := o.AppendUint32(nil, 0)
		b = o.AppendUint32(b, uint32(t/unit>>32))
		b = o.AppendUint32(b, uint32(t/unit))
		b = o.AppendUint32(b, uint32(len(have)))
		b = o.AppendUint32(b, uint32(len(frame)))
		c.Block(6, append(b, have...))
		return
	}
	c.Bytes = o.AppendUint32(c.Bytes, uint32(t/1_000_000_000))
	c.Bytes = o.AppendUint32(c.Bytes, uint32(t%1_000_000_000/unit))
	c.Bytes = o.AppendUint32(c.Bytes, uint32(len(have)))
	c.Bytes = o.AppendUint32(c.Bytes, uint32(len(frame)))
	c.Bytes = append(c.Bytes, have...)
}

// Ten converts a price to units of 1e-4.
func Ten(p market.Price) int64 { return int64(p / (market.Scale / 10_000)) }

// Order writes the change of a DEEP level by an event of a Flow, given the book after it. For an
// execution it writes the trade first.
func (w *IEX) Order(e *market.Event, side market.Side, book *market.Book) {
	symbol := Symbol(int(e.Handle))
	if e.Kind == market.KindOrderFill {
		w.Trade(e.Time, symbol, 'T', 0, units(e.Size), Ten(e.Price), number(e.TradeID))
	}
	kind := byte('8')
	if side == market.Sell {
		kind = '5'
	}
	l, _ := book.Find(side, e.Price)
	w.Level(e.Time, symbol, kind, 1, units(l.Size), Ten(e.Price))
}
