package iex

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/market"
)

// Market is the market of the instruments.
const Market = "IEX"

// Protocols of messages.
const (
	protocolTOPS = 0x8003
	protocolDEEP = 0x8004
)

// Decoder decodes one capture from beginning to end.
type Decoder struct {
	filter   decode.Filter
	capture  capture
	protocol uint16 // that is played; 0: none yet
	other    uint16 // one that occurs and is not played
	channels []channel
	stocks   []stock
	index    map[uint64]int32
	cache    [1 << cacheBits]cacheEntry
	venue    market.Handle
	listed   bool // the venue is listed
	words    [32][]string
}

// channel is a numbered stream of messages.
type channel struct {
	id       uint32
	session  uint32
	next     uint64 // number of the next message
	complete bool   // nothing is missing since the first message of the session
	sent     int64  // the latest send time
	time     int64  // of the newest message
}

// stock is an instrument.
type stock struct {
	handle  market.Handle
	channel int
	skipped bool         // excluded by the filter
	phase   market.Phase // stated by the newest H
	stopped bool         // set by O
	known   bool         // the book is known (DEEP)
	bids    []market.Level
	asks    []market.Level // of an incomplete event, best first
	held    int            // messages of that event
}

// cacheEntry is an entry of the cache in front of the map of stocks, by a hash of the symbol.
type cacheEntry struct {
	symbol uint64
	index  int32 // index into stocks, from 1
}

const cacheBits = 12

// New returns a decoder for a capture.
func New(filter decode.Filter) *Decoder {
	d := &Decoder{filter: filter, index: make(map[uint64]int32)}
	for i := range d.words {
		for bit, word := range [...]string{"single_price_cross", "trade_through_exempt", "odd_lot", "extended_hours", "intermarket_sweep"} {
			if i>>bit&1 != 0 {
				d.words[i] = append(d.words[i], word)
			}
		}
	}
	return d
}

// Decode implements the decoder interface of package decode. A record is a packet.
func (d *Decoder) Decode(data []byte, b *decode.Batch) (n int, err error) {
	var p packet
	for !b.Full() {
		size, ok, err := d.capture.next(data[n:], &p)
		if err == nil && ok {
			err = d.packet(&p, b)
		}
		if err != nil || size == 0 {
			return n, err
		}
		b.Cut()
		n += size
	}
	return n, nil
}

// End implements the decoder interface of package decode.
func (d *Decoder) End(rest []byte, b *decode.Batch) error {
	for i := range d.stocks {
		d.stocks[i].drop(b)
	}
	switch {
	case len(rest) > 0 || d.capture.order == nil:
		return errors.New("the file ends within a packet")
	case d.protocol == 0 && d.other != 0:
		return fmt.Errorf("the capture has IEX-TP of protocol %#04x alone; TOPS 1.6 (0x8003) and DEEP 1.0 (0x8004) are played", d.other)
	case d.protocol == 0:
		return errors.New("the capture has no segment of IEX-TP")
	}
	return nil
}

// segment is the header of a segment of IEX-TP.
type segment struct {
	protocol uint16
	channel  uint32
	session  uint32
	length   int
	count    int
	first    uint64 // number of the first message
	sent     int64
}

const segmentHead = 40

// packet decodes a packet. It skips packets that are not segments of IEX-TP.
func (d *Decoder) packet(p *packet, b *decode.Batch) error {
	data := p.datagram()
	le := binary.LittleEndian
	// Messages of IEX have protocols from 0x8001 on. Other protocols may begin with the same bytes.
	if len(data) < segmentHead || data[0] != 1 || data[1] != 0 || data[3] != protocolTOPS>>8 {
		b.Stats.Count(decode.OtherType)
		return nil
	}
	s := segment{
		protocol: le.Uint16(data[2:]),
		channel:  le.Uint32(data[4:]),
		session:  le.Uint32(data[8:]),
		length:   int(le.Uint16(data[12:])),
		count:    int(le.Uint16(data[14:])),
		first:    le.Uint64(data[24:]),
		sent:     int64(le.Uint64(data[32:])),
	}
	if s.protocol != protocolTOPS && s.protocol != protocolDEEP || d.protocol != 0 && s.protocol != d.protocol {
		if s.protocol == protocolTOPS { // DEEP has its trades, and is played
			b.Stats.Count(decode.Repeated)
		} else {
			b.Stats.Count(decode.Unsupported)
		}
		if d.other = s.protocol; d.protocol != 0 {
			b.Note("other_protocol", "segments of protocol %#04x are skipped, because those of %#04x are played", s.protocol, d.protocol)
		}
		return nil
	}
	body := data[segmentHead:]
	if len(body) < s.length {
		if !p.cut {
			return fmt.Errorf("segment %d should have %d bytes and has %d", s.first, s.length, len(body))
		}
		b.Stats.Count(decode.Incomplete) // its messages will be missing
		b.Note("short_capture", "packets were not captured in full")
		return nil
	}
	d.protocol = s.protocol
	receive := p.time
	if receive == 0 {
		receive = max(0, s.sent)
	}
	return d.segment(&s, body[:s.length], receive, b)
}

// segment decodes the new messages of a segment.
func (d *Decoder) segment(s *segment, body []byte, receive int64, b *decode.Batch) error {
	ci, late, err := d.follow(s, body, receive, b)
	if err != nil {
		return err
	}
	c := &d.channels[ci]
	for i := range s.count {
		if len(body) < 2 {
			return fmt.Errorf("segment %d ends before message %d of %d", s.first, i+1, s.count)
		}
		size := int(binary.LittleEndian.Uint16(body))
		if size == 0 || len(body) < 2+size {
			return fmt.Errorf("segment %d: a message of %d bytes where %d are left", s.first, size, len(body)-2)
		}
		number := s.first + uint64(i)
		switch {
		case late:
			b.Stats.Count(decode.Late)
		case number < c.next:
			b.Stats.Count(decode.Repeated)
		default:
			if err := d.message(body[2:2+size:2+size], ci, number, receive, b); err != nil {
				return fmt.Errorf("message %d: %w", number, err)
			}
			b.EndRecord()
			c.next = number + 1
			c.time = max(c.time, messageTime(body))
		}
		body = body[2+size:]
	}
	if len(body) > 0 {
		return fmt.Errorf("segment %d has %d bytes after its messages", s.first, len(body))
	}
	return nil
}

// maxChannels limits the channels of a capture; the exchange has one.
const maxChannels = 64

// messageTime returns the time of the first message of a segment's body, 0 if there is none.
func messageTime(body []byte) int64 {
	if len(body) < 12 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(body[4:]))
}

// follow returns the index of a segment's channel. It reports messages that are missing before the
// segment, and a session that has begun again. late is set if the segment is of a session that has
// ended.
func (d *Decoder) follow(s *segment, body []byte, receive int64, b *decode.Batch) (channel int, late bool, err error) {
	for i := range d.channels {
		c := &d.channels[i]
		if c.id != s.channel {
			continue
		}
		// A session may begin again under its identifier. Unlike a repetition, it is sent later
		// than all earlier segments, and its messages are newer.
		restarted := s.count > 0 && s.first < c.next && s.sent > c.sent && messageTime(body) > c.time
		if s.first >= c.next {
			c.sent = max(c.sent, s.sent)
		}
		switch {
		case s.sent < c.sent && (c.session != s.session || s.first > c.next):
			b.Note("late_segment", "messages of a session that has ended are skipped")
			return i, true, nil
		case c.session != s.session || restarted:
			d.markStale(i, receive, "session_changed", s.first <= 1, b)
			*c = newChannel(s)
		case s.first > c.next:
			b.Note("sequence_gap", "messages %d to %d are missing", c.next, s.first-1)
			d.markStale(i, receive, "sequence_gap", false, b)
			c.next, c.complete = s.first, false
		}
		return i, false, nil
	}
	if len(d.channels) >= maxChannels {
		return 0, false, fmt.Errorf("more than %d channels", maxChannels)
	}
	d.channels = append(d.channels, newChannel(s))
	return len(d.channels) - 1, false, nil
}

// newChannel returns the channel of a session that begins with a segment.
func newChannel(s *segment) channel {
	return channel{id: s.channel, session: s.session, next: s.first, complete: s.first <= 1, sent: s.sent}
}

// markStale publishes a gap for every instrument of a channel. If empty is set, it then publishes
// empty books.
func (d *Decoder) markStale(channel int, receive int64, reason string, empty bool, b *decode.Batch) {
	for i := range d.stocks {
		s := &d.stocks[i]
		if s.channel != channel || s.skipped {
			continue
		}
		s.drop(b)
		b.Gap(s.handle, 0, receive, reason)
		if s.known = empty && d.protocol == protocolDEEP; s.known {
			b.Stats.Snapshots++
			b.Add(market.KindSnapshot, s.handle).Receive = receive
		}
	}
}

// drop discards an incomplete event.
func (s *stock) drop(b *decode.Batch) {
	b.Stats.Recount(s.held, decode.Incomplete)
	s.bids, s.asks, s.held = s.bids[:0], s.asks[:0], 0
}
