package deflate

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// Sizes of RFC 1951's alphabets and codes.
const (
	numLiterals  = 286 // bytes, the end of a block, lengths
	numDistances = 30
	numOrders    = 19 // lengths of codes, in the head of a dynamic block
	endOfBlock   = 256
	maxMatch     = 258
	minMatch     = 4 // the format allows 3; a match of 3 saves next to nothing
	hashBits     = 12
)

// orders is the order in which a dynamic block tells the lengths of its length codes.
var orders = [numOrders]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// A Compressor makes compressed payloads. It holds about 24 KiB and what the largest payload
// needed, and does not allocate otherwise. The zero value is ready; it belongs to one
// goroutine at a time.
//
// It is one greedy pass with a table of the newest place of each four bytes, and then the better
// of the fixed code and one made for the payload. The table is not cleared between payloads:
// places count on, and those of older payloads lie before base. A general
// library clears, or allocates, for each payload what is made for megabytes.
type Compressor struct {
	table  [1 << hashBits]uint32
	base   uint32   // place of the payload's first byte, from window on
	tokens []uint32 // a byte, or tokenMatch | length-3 << 16 | distance-1

	literals struct {
		count [numLiterals]uint32
		codes [numLiterals]code
	}
	distances struct {
		count [numDistances]uint32
		codes [numDistances]code
	}
	head    dynamicHead
	sorted  []uint32
	weights []uint32
}

const tokenMatch = 1 << 31

// code is a symbol's bits, the first one lowest.
type code struct {
	bits uint16
	size uint16
}

// Append compresses payload, of less than 1 GiB, at the end of dst. What it
// appends may be longer than payload, by an eighth and two bytes at most.
func (d *Compressor) Append(dst, payload []byte) []byte {
	d.match(payload)
	d.countTokens()
	w := bitWriter{out: dst}
	if head := d.dynamicCodes(); d.codedSize()+head.size() < d.fixedSize() {
		head.write(&w)
	} else {
		d.fixedCodes()
		w.add(0b010, 3) // not the last block, fixed code
	}
	d.writeTokens(&w)
	return w.end()
}

// match takes the payload apart into tokens.
func (d *Compressor) match(p []byte) {
	if d.base < window || d.base > 1<<31 {
		clear(d.table[:])
		d.base = window
	}
	t := d.tokens[:0]
	i := 0
	for i+minMatch <= len(p) {
		v := binary.LittleEndian.Uint32(p[i:])
		slot := &d.table[v*0x9E3779B1>>(32-hashBits)]
		at := d.base + uint32(i)
		far := at - *slot
		*slot = at
		if far > uint32(min(i, window)) || far == 0 || binary.LittleEndian.Uint32(p[i-int(far):]) != v {
			t = append(t, uint32(p[i]))
			i++
			continue
		}
		n := minMatch + alike(p[i+minMatch:], p[i-int(far)+minMatch:], maxMatch-minMatch)
		t = append(t, tokenMatch|uint32(n-3)<<16|(far-1))
		for end := min(i+n, len(p)-minMatch+1); i+1 < end; {
			i++
			v := binary.LittleEndian.Uint32(p[i:])
			d.table[v*0x9E3779B1>>(32-hashBits)] = d.base + uint32(i)
			n--
		}
		i += n
	}
	for ; i < len(p); i++ {
		t = append(t, uint32(p[i]))
	}
	d.tokens = t
	d.base += uint32(len(p))
}

// alike counts how many bytes a and b, which may overlap, have in common at their start; a is the
// shorter one.
func alike(a, b []byte, most int) int {
	a = a[:min(len(a), most)]
	n := 0
	for len(a)-n >= 8 {
		if x := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
		n += 8
	}
	for n < len(a) && a[n] == b[n] {
		n++
	}
	return n
}

// lengthSymbol gives a length less 3 its symbol and how many bits follow.
func lengthSymbol(l uint32) (symbol, extra uint32) {
	switch {
	case l < 4:
		return 257 + l, 0
	case l == maxMatch-3:
		return 285, 0
	}
	n := uint32(bits.Len32(l)) - 1
	return 257 + 4*(n-1) + l>>(n-2)&3, n - 2
}

// distanceSymbol gives a distance less 1 its symbol and how many bits follow.
func distanceSymbol(far uint32) (symbol, extra uint32) {
	if far < 2 {
		return far, 0
	}
	n := uint32(bits.Len32(far)) - 1
	return 2*n + far>>(n-1)&1, n - 1
}

func (d *Compressor) countTokens() {
	clear(d.literals.count[:])
	clear(d.distances.count[:])
	for _, t := range d.tokens {
		if t < tokenMatch {
			d.literals.count[t&0xff]++
			continue
		}
		l, _ := lengthSymbol(t >> 16 & 0xff)
		f, _ := distanceSymbol(t & 0x7fff)
		d.literals.count[l]++
		d.distances.count[f]++
	}
	d.literals.count[endOfBlock]++
}

// fixedSize is the bits that the tokens take in the fixed code, but for those that
// follow lengths and distances in any code.
func (d *Compressor) fixedSize() int {
	sum := 0
	for s, n := range d.literals.count {
		sum += int(n) * int(fixedLength(s))
	}
	for _, n := range d.distances.count {
		sum += int(n) * 5
	}
	return sum
}

func (d *Compressor) codedSize() int {
	sum := 0
	for s, n := range d.literals.count {
		sum += int(n) * int(d.literals.codes[s].size)
	}
	for s, n := range d.distances.count {
		sum += int(n) * int(d.distances.codes[s].size)
	}
	return sum
}

func fixedLength(symbol int) uint16 {
	switch {
	case symbol < 144, symbol >= 280:
		return 8
	case symbol < 256:
		return 9
	}
	return 7
}

func (d *Compressor) fixedCodes() {
	var all [numLiterals + 2]code // two are never used, and have codes
	for s := range all {
		all[s].size = fixedLength(s)
	}
	assign(all[:])
	copy(d.literals.codes[:], all[:])
	for s := range d.distances.codes {
		d.distances.codes[s] = code{bits.Reverse16(uint16(s)) >> 11, 5}
	}
}

func (d *Compressor) writeTokens(w *bitWriter) {
	for _, t := range d.tokens {
		if t < tokenMatch {
			c := d.literals.codes[t&0xff]
			w.add(uint64(c.bits), uint(c.size))
			continue
		}
		l, far := t>>16&0xff, t&0x7fff
		s, extra := lengthSymbol(l)
		c := d.literals.codes[s]
		b, n := uint64(c.bits), uint(c.size)
		b |= uint64(l&(1<<extra-1)) << n
		n += uint(extra)
		s, extra = distanceSymbol(far)
		c = d.distances.codes[s]
		b |= uint64(c.bits) << n
		n += uint(c.size)
		b |= uint64(far&(1<<extra-1)) << n
		w.add(b, n+uint(extra)) // at most 15+5+15+13
	}
	c := d.literals.codes[endOfBlock]
	w.add(uint64(c.bits), uint(c.size))
}

// A bitWriter appends bits, the first one lowest.
type bitWriter struct {
	out  []byte
	acc  uint64
	held uint
}

// add appends the low n bits of b, at most 48; those above are zero.
func (w *bitWriter) add(b uint64, n uint) {
	w.acc |= b << w.held
	w.held += n
	if w.held >= 16 {
		w.out = binary.LittleEndian.AppendUint64(w.out, w.acc)
		whole := w.held / 8
		w.out = w.out[:len(w.out)-8+int(whole)]
		w.acc >>= whole * 8
		w.held &= 7
	}
}

// end begins the empty stored block that brings the stream to a whole byte, and leaves
// out its four bytes, 00 00 ff ff: the reader puts them there (RFC 7692, section 7.2.1).
func (w *bitWriter) end() []byte {
	w.add(0, 3)
	for w.held > 0 {
		w.out = append(w.out, byte(w.acc))
		w.acc >>= 8
		w.held -= min(w.held, 8)
	}
	return w.out
}

// dynamicHead is the head of a block with a code of its own: the lengths of all codes,
// runs of them made short, in a code of theirs.
type dynamicHead struct {
	runs      [numLiterals + numDistances]uint16 // a length, or 16 to 18 with a count from bit 8 on
	count     [numOrders]uint32
	codes     [numOrders]code
	n         int // of runs
	literals  int // codes told
	distances int
	lengths   int // lengths of the lengths' codes told
}

// dynamicCodes makes the codes for what was counted, and the head that tells them.
func (d *Compressor) dynamicCodes() *dynamicHead {
	h := &d.head
	h.n = 0
	clear(h.count[:])
	d.lengths(d.literals.codes[:], d.literals.count[:], 15)
	d.lengths(d.distances.codes[:], d.distances.count[:], 15)
	assign(d.literals.codes[:])
	assign(d.distances.codes[:])
	h.literals, h.distances = numLiterals, numDistances
	for h.literals > 257 && d.literals.codes[h.literals-1].size == 0 {
		h.literals--
	}
	for h.distances > 1 && d.distances.codes[h.distances-1].size == 0 {
		h.distances--
	}
	h.run(d.literals.codes[:h.literals], d.distances.codes[:h.distances])
	d.lengths(h.codes[:], h.count[:], 7)
	assign(h.codes[:])
	h.lengths = numOrders
	for h.lengths > 4 && h.codes[orders[h.lengths-1]].size == 0 {
		h.lengths--
	}
	return h
}

// run shortens the lengths of both codes, as one list.
func (h *dynamicHead) run(a, b []code) {
	total := len(a) + len(b)
	at := func(i int) uint16 {
		if i < len(a) {
			return a[i].size
		}
		return b[i-len(a)].size
	}
	put := func(symbol, more int) {
		h.runs[h.n] = uint16(symbol | more<<8)
		h.n++
		h.count[symbol]++
	}
	for i := 0; i < total; {
		v, n := at(i), 1
		for i+n < total && at(i+n) == v && n < 138 {
			n++
		}
		switch {
		case v == 0 && n >= 11:
			put(18, n-11)
		case v == 0 && n >= 3:
			put(17, n-3)
		case v != 0 && n >= 4:
			n = min(n, 7)
			put(int(v), 0)
			put(16, n-4)
		default:
			n = 1
			put(int(v), 0)
		}
		i += n
	}
}

// extra is how many bits follow a symbol of the head.
func headExtra(symbol int) uint {
	switch symbol {
	case 16:
		return 2
	case 17:
		return 3
	case 18:
		return 7
	}
	return 0
}

func (h *dynamicHead) size() int {
	sum := 14 + 3*h.lengths
	for s, n := range h.count {
		sum += int(n) * (int(h.codes[s].size) + int(headExtra(s)))
	}
	return sum
}

func (h *dynamicHead) write(w *bitWriter) {
	w.add(0b100, 3) // not the last block, a code of its own
	w.add(uint64(h.literals-257), 5)
	w.add(uint64(h.distances-1), 5)
	w.add(uint64(h.lengths-4), 4)
	for _, s := range orders[:h.lengths] {
		w.add(uint64(h.codes[s].size), 3)
	}
	for _, r := range h.runs[:h.n] {
		s := int(r & 0xff)
		c := h.codes[s]
		w.add(uint64(c.bits)|uint64(r>>8)<<c.size, uint(c.size)+headExtra(s))
	}
}

// lengths gives each symbol that was counted the length of its code, by Huffman's algorithm in
// place (Moffat and Katajainen, 1995). Where a code gets longer than most bits, counts are
// halved until none is.
func (d *Compressor) lengths(codes []code, count []uint32, most uint16) {
	clear(codes)
	for shift := 0; ; shift++ {
		s := d.sorted[:0]
		for symbol, n := range count {
			if n > 0 {
				s = append(s, min(max(n>>shift, 1), 1<<22)<<9|uint32(symbol))
			}
		}
		d.sorted = s
		if len(s) < 2 {
			// One code of one bit is whole enough for a reader; none needs none.
			for _, v := range s {
				codes[v&0x1ff].size = 1
			}
			return
		}
		slices.Sort(s)
		w := d.weights[:0]
		for _, v := range s {
			w = append(w, v>>9)
		}
		d.weights = w
		huffman(w)
		if w[0] > uint32(most) {
			continue
		}
		for i, v := range s {
			codes[v&0x1ff].size = uint16(w[i])
		}
		return
	}
}

// huffman turns weights, two or more in rising order, into the lengths of their codes.
func huffman(a []uint32) {
	n := len(a)
	a[0] += a[1]
	root, leaf := 0, 2
	for next := 1; next < n-1; next++ { // weights into parents
		if leaf >= n || a[root] < a[leaf] {
			a[next] = a[root]
			a[root] = uint32(next)
			root++
		} else {
			a[next] = a[leaf]
			leaf++
		}
		if leaf >= n || root < next && a[root] < a[leaf] {
			a[next] += a[root]
			a[root] = uint32(next)
			root++
		} else {
			a[next] += a[leaf]
			leaf++
		}
	}
	a[n-2] = 0
	for next := n - 3; next >= 0; next-- { // parents into depths
		a[next] = a[a[next]] + 1
	}
	free, used, depth := 1, 0, uint32(0)
	root = n - 2
	for next := n - 1; free > 0; { // depths of inner nodes into those of leaves
		for root >= 0 && a[root] == depth {
			used++
			root--
		}
		for free > used {
			a[next] = depth
			next--
			free--
		}
		free, used = 2*used, 0
		depth++
	}
}

// assign gives the symbols their codes by the lengths (RFC 1951, section 3.2.2).
func assign(codes []code) {
	var count, next [16]uint16
	for _, c := range codes {
		count[c.size]++
	}
	count[0] = 0
	for n := 1; n < len(next); n++ {
		next[n] = (next[n-1] + count[n-1]) << 1
	}
	for s := range codes {
		if n := codes[s].size; n > 0 {
			codes[s].bits = bits.Reverse16(next[n]) >> (16 - n)
			next[n]++
		}
	}
}
