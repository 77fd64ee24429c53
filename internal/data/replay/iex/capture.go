package iex

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// capture extracts packets from a pcap or pcapng file.
type capture struct {
	order      binary.ByteOrder // nil: the header was not read yet
	blocks     bool             // pcapng
	interfaces []device         // pcap: one
}

// device is an interface on which packets were captured.
type device struct {
	link  uint16
	scale int64 // ns per unit of time; 0: not a whole number of ns
	per   uint64
	shift int64 // ns to add
}

// packet is one captured packet.
type packet struct {
	time int64 // Unix ns; 0: unknown
	link uint16
	data []byte
	cut  bool // the capture does not have all of it
}

// Limits of a capture.
const (
	maxPacket     = 256 << 10
	maxBlock      = 16 << 20
	maxInterfaces = 1 << 10
)

// Link types.
const (
	linkEthernet = 1
	linkRaw      = 101
	linkCooked   = 113
)

// Sniff reports whether data is the beginning of a capture.
func Sniff(data []byte) bool {
	if len(data) < 12 {
		return false
	}
	var c capture
	order, _, _ := c.magic(data)
	return order != nil
}

// magic determines the format and the byte order from the first bytes.
func (c *capture) magic(data []byte) (order binary.ByteOrder, blocks, nano bool) {
	le, be := binary.LittleEndian, binary.BigEndian
	switch {
	case le.Uint32(data) == 0xa1b2c3d4:
		return le, false, false
	case le.Uint32(data) == 0xa1b23c4d:
		return le, false, true
	case be.Uint32(data) == 0xa1b2c3d4:
		return be, false, false
	case be.Uint32(data) == 0xa1b23c4d:
		return be, false, true
	case le.Uint32(data) == blockSection && le.Uint32(data[8:]) == 0x1a2b3c4d:
		return le, true, false
	case le.Uint32(data) == blockSection && be.Uint32(data[8:]) == 0x1a2b3c4d:
		return be, true, false
	}
	return nil, false, false
}

// Types of blocks. The type of a section header is the same in both byte orders.
const (
	blockSection   = 0x0a0d0d0a
	blockInterface = 1
	blockOld       = 2
	blockSimple    = 3
	blockPacket    = 6
)

const (
	pcapHead   = 24
	recordHead = 16
	blockFrame = 12 // type, and the length at both ends
)

// next decodes the next part of a capture. n is its size, 0 if data is incomplete. ok reports that
// it is a packet.
func (c *capture) next(data []byte, p *packet) (n int, ok bool, err error) {
	if c.order == nil {
		return c.head(data)
	}
	if c.blocks {
		return c.block(data, p)
	}
	if len(data) < recordHead {
		return 0, false, nil
	}
	size := c.order.Uint32(data[8:])
	if size > maxPacket {
		return 0, false, fmt.Errorf("a packet of %d bytes", size)
	}
	n = recordHead + int(size)
	if len(data) < n {
		return 0, false, nil
	}
	d := &c.interfaces[0]
	*p = packet{
		time: int64(c.order.Uint32(data))*1_000_000_000 + int64(c.order.Uint32(data[4:]))*d.scale,
		link: d.link,
		data: data[recordHead:n:n],
		cut:  size < c.order.Uint32(data[12:]),
	}
	return n, true, nil
}

// head parses the header of a pcap file. The header of a pcapng file consists of blocks.
func (c *capture) head(data []byte) (n int, ok bool, err error) {
	if len(data) < 12 {
		return 0, false, nil
	}
	order, blocks, nano := c.magic(data)
	switch {
	case order == nil:
		return 0, false, errors.New("neither pcap nor pcapng")
	case blocks:
		c.order, c.blocks = order, true
		return c.block(data, nil)
	case len(data) < pcapHead:
		return 0, false, nil
	}
	c.order = order
	d := device{link: uint16(order.Uint32(data[20:])), scale: 1000}
	if nano {
		d.scale = 1
	}
	c.interfaces = []device{d}
	return pcapHead, false, d.known()
}

func (d *device) known() error {
	switch d.link {
	case linkEthernet, linkRaw, linkCooked:
		return nil
	}
	return fmt.Errorf("packets of link type %d; Ethernet (1), raw IP (101) and Linux cooked (113) are known", d.link)
}

// block parses a block of a pcapng file.
func (c *capture) block(data []byte, p *packet) (n int, ok bool, err error) {
	if len(data) < blockFrame {
		return 0, false, nil
	}
	kind := c.order.Uint32(data)
	if kind == blockSection {
		order, blocks, _ := c.magic(data)
		if order == nil || !blocks {
			return 0, false, errors.New("a section of unknown byte order")
		}
		c.order = order
	}
	size := c.order.Uint32(data[4:])
	if size < blockFrame || size > maxBlock || size%4 != 0 {
		return 0, false, fmt.Errorf("a block of %d bytes", size)
	}
	n = int(size)
	if len(data) < n {
		return 0, false, nil
	}
	if end := c.order.Uint32(data[n-4:]); end != size {
		return 0, false, fmt.Errorf("a block of %d bytes ends as one of %d", size, end)
	}
	body := data[8 : n-4]
	switch kind {
	case blockSection:
		c.interfaces = c.interfaces[:0]
	case blockInterface:
		err = c.device(body)
	case blockPacket, blockOld:
		ok, err = c.packet(body, kind, p)
	case blockSimple:
		ok, err = c.simple(body, p)
	}
	return n, ok, err
}

// device parses the description of an interface.
func (c *capture) device(body []byte) error {
	if len(body) < 8 {
		return errors.New("an interface block that is too short")
	}
	if len(c.interfaces) >= maxInterfaces {
		return fmt.Errorf("more than %d interfaces", maxInterfaces)
	}
	d := device{link: c.order.Uint16(body), scale: 1000}
	for options := body[8:]; len(options) >= 4; {
		code, size := c.order.Uint16(options), int(c.order.Uint16(options[2:]))
		if code == 0 {
			break
		}
		padded := 4 + (size+3)/4*4
		if len(options) < padded {
			return errors.New("an interface block that ends within its options")
		}
		value := options[4 : 4+size]
		switch {
		case code == 9 && size == 1:
			if err := d.resolution(value[0]); err != nil {
				return err
			}
		case code == 14 && size == 8:
			seconds := int64(c.order.Uint64(value))
			if seconds > 1<<33 || seconds < -1<<33 {
				return errors.New("an interface with a bad offset of its clock")
			}
			d.shift = seconds * 1_000_000_000
		}
		options = options[padded:]
	}
	c.interfaces = append(c.interfaces, d)
	return nil
}

// resolution sets the unit of an interface's clock: a power of ten or, with the highest bit set, of
// two.
func (d *device) resolution(r byte) error {
	power := r & 0x7f
	if r&0x80 != 0 {
		if power > 63 {
			return fmt.Errorf("a clock of units of 2^-%d s", power)
		}
		d.scale, d.per = 0, 1<<power
		return nil
	}
	if power > 19 {
		return fmt.Errorf("a clock of units of 10^-%d s", power)
	}
	d.scale, d.per = 0, 1
	for range power {
		d.per *= 10
	}
	if power <= 9 {
		d.scale = int64(1_000_000_000 / d.per)
	}
	return nil
}

// instant converts a time of the interface's clock to Unix nanoseconds, 0 if it is out of range.
func (d *device) instant(t uint64) int64 {
	hi, lo := bits.Mul64(t, uint64(d.scale))
	if d.scale == 0 {
		hi, lo = bits.Mul64(t, 1_000_000_000)
		if hi >= d.per {
			return 0
		}
		lo, _ = bits.Div64(hi, lo, d.per)
		hi = 0
	}
	if hi != 0 || lo > 1<<62 {
		return 0
	}
	return max(0, int64(lo)+d.shift)
}

// packet parses an enhanced packet block, or an obsolete packet block.
func (c *capture) packet(body []byte, kind uint32, p *packet) (bool, error) {
	const head = 20
	if len(body) < head {
		return false, errors.New("a packet block that is too short")
	}
	id := int(c.order.Uint32(body))
	if kind == blockOld {
		id = int(c.order.Uint16(body))
	}
	size := c.order.Uint32(body[12:])
	switch {
	case id >= len(c.interfaces):
		return false, fmt.Errorf("a packet of interface %d, which is not described", id)
	case int64(size) > int64(len(body)-head) || size > maxPacket:
		return false, fmt.Errorf("a packet of %d bytes", size)
	}
	d := &c.interfaces[id]
	*p = packet{
		time: d.instant(uint64(c.order.Uint32(body[4:]))<<32 | uint64(c.order.Uint32(body[8:]))),
		link: d.link,
		data: body[head : head+int(size)],
		cut:  size < c.order.Uint32(body[16:]),
	}
	return true, d.known()
}

// simple parses a simple packet block, which has neither time nor interface.
func (c *capture) simple(body []byte, p *packet) (bool, error) {
	if len(body) < 4 || len(c.interfaces) == 0 {
		return false, errors.New("a simple packet block without an interface")
	}
	size := c.order.Uint32(body)
	data := body[4:]
	if int64(size) < int64(len(data)) {
		data = data[:size]
	}
	*p = packet{link: c.interfaces[0].link, data: data, cut: int64(size) > int64(len(data))}
	return true, c.interfaces[0].known()
}

// datagram returns the payload of a UDP datagram in the packet, nil if there is none.
func (p *packet) datagram() []byte {
	const (
		typeIPv4 = 0x0800
		udp      = 17
	)
	be := binary.BigEndian
	data := p.data
	kind := uint16(typeIPv4)
	switch p.link {
	case linkEthernet:
		if len(data) < 14 {
			return nil
		}
		kind, data = be.Uint16(data[12:]), data[14:]
	case linkCooked:
		if len(data) < 16 {
			return nil
		}
		kind, data = be.Uint16(data[14:]), data[16:]
	}
	for kind == 0x8100 || kind == 0x88a8 || kind == 0x9100 { // VLAN tags
		if len(data) < 4 {
			return nil
		}
		kind, data = be.Uint16(data[2:]), data[4:]
	}
	if kind != typeIPv4 || len(data) < 20 || data[0]>>4 != 4 {
		return nil
	}
	head, total := int(data[0]&0xf)*4, int(be.Uint16(data[2:]))
	const fragment = 0x3fff // a fragment
	if head < 20 || data[9] != udp || be.Uint16(data[6:])&fragment != 0 || total < head+8 {
		return nil
	}
	data = data[:min(total, len(data))] // padding follows
	if len(data) < head+8 {
		return nil
	}
	size := int(be.Uint16(data[head+4:]))
	if size < 8 {
		return nil
	}
	return data[head+8 : min(head+size, len(data))]
}
