package load

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/ruedahq/rueda/wire"
)

// channels is the number of sequences of an instrument: trades, quotes, books, status.
const channels = 4

// seen is what a connection has received of one sequence.
type seen struct {
	first, last uint32 // N; 0: none
}

// instrument is an instrument with messages at one delay.
type instrument struct {
	id   string
	tail string // text between {"type":"T","S":" and the digits of N: GGAL","I":"GGAL|BYMA|24hs","N":
}

// Offsets in a data message: {"type":"T","S":"GGAL","I":"GGAL|BYMA|24hs","N":
const (
	atKind   = 9
	atSymbol = 17
	timeSize = len("2006-01-02T15:04:05.000000000Z")
)

// checker checks messages and has the instruments, faults and counters.
type checker struct {
	instruments []instrument
	index       map[string]int32 // by tail

	deliveries uint64
	trades     uint64
	faults     Faults

	latency Latency
	every   int   // interval of latency samples
	until   int   // messages until the next sample
	now     int64 // Unix ns when the bytes were read; 0: not read yet
	clock   func() int64
	aged    func(c *conn, at int64) // called for quotes of slow connections; nil: none
	second  [20]byte                // last parsed time up to the point
	base    int64                   // value of second

	// reach counts the connections that have an N, to find the newest that all have.
	reach   []uint32
	through uint32
}

// reachSize bounds the distance between connections: the buffers of two sockets and 1 MiB of a
// server hold a tenth of it.
const reachSize = 1 << 16

func newChecker(sample int, frontier bool, clock func() int64) *checker {
	k := &checker{index: make(map[string]int32), every: sample, until: sample, clock: clock}
	if frontier {
		k.reach = make([]uint32, reachSize)
	}
	return k
}

func (k *checker) fault(n *uint64, by uint64, format string, args ...any) {
	*n += by
	if k.faults.First == "" {
		k.faults.First = fmt.Sprintf(format, args...)
	}
}

// data checks a message of a connection if it is a data message.
func (k *checker) data(c *conn, p []byte) bool {
	if len(p) < 64 || p[atKind-1] != '"' || p[atKind+1] != '"' {
		return false
	}
	q := p[atSymbol:]
	at := c.recent
	tail := ""
	if int(at) < len(k.instruments) {
		tail = k.instruments[at].tail
	}
	if tail == "" || len(q) < len(tail) || string(q[:len(tail)]) != tail {
		if at = k.find(q); at < 0 {
			return false
		}
		c.recent = at
		tail = k.instruments[at].tail
	}
	q = q[len(tail):]
	n, i := uint32(0), 0
	for i < len(q) && q[i]-'0' <= 9 {
		n = n*10 + uint32(q[i]-'0')
		i++
	}
	k.deliveries++
	if need := (int(at) + 1) * channels; len(c.seen) < need {
		c.seen = append(c.seen, make([]seen, need-len(c.seen))...)
	}
	s := c.seen[int(at)*channels:][:channels]
	if kind := p[atKind]; kind == 'T' {
		k.trades++
		k.next(&s[0], n, c, at)
	} else {
		k.other(s, kind, n, q[i:], c, at)
	}
	if c.slow {
		if p[atKind] == 'Q' && k.aged != nil {
			k.aged(c, k.time(q[i:]))
		}
		return true
	}
	if k.until--; k.until <= 0 {
		k.until = k.every
		k.sample(q[i:])
	}
	return true
}

// next checks the next number of a sequence without gaps.
func (k *checker) next(s *seen, n uint32, c *conn, at int32) {
	if n != s.last+1 {
		switch {
		case n == 0 || n <= s.last:
			k.fault(&k.faults.Doubled, 1, "connection %d: %s: N %d after %d", c.number, k.instruments[at].id, n, s.last)
			return
		case s.last != 0:
			k.fault(&k.faults.Lost, uint64(n-s.last-1), "connection %d: %s: N %d after %d", c.number, k.instruments[at].id, n, s.last)
		}
	}
	if s.last == 0 {
		s.first = n
	}
	s.last = n
	if k.reach != nil {
		k.reach[n%reachSize]++
	}
}

// other checks the number of a message that is not a trade; rest is the rest of its header.
func (k *checker) other(s []seen, kind byte, n uint32, rest []byte, c *conn, at int32) {
	switch kind {
	case 'X', 'C':
		k.next(&s[0], n, c, at)
		return
	case 'Q':
		s = s[1:]
	case 'O':
		s = s[2:]
	case 'H':
		s = s[3:]
	default:
		k.fault(&k.faults.Unknown, 1, "connection %d: message of type %q", c.number, kind)
		return
	}
	// A snapshot may have the number of the previous message.
	state := false
	if j := len(`,"T":"`) + timeSize + 1; len(rest) > j {
		rest = rest[j:]
		if bytes.HasPrefix(rest, []byte(`,"D":`)) {
			rest = rest[1+bytes.IndexByte(rest[1:], ','):]
		}
		state = bytes.HasPrefix(rest, []byte(`,"R":true`))
	}
	last := s[0].last
	if n < last || n == last && !state {
		k.fault(&k.faults.Doubled, 1, "connection %d: %s: %c with N %d after %d", c.number, k.instruments[at].id, kind, n, last)
		return
	}
	if kind == 'O' && !state && last != 0 && !chains(rest, last) {
		k.fault(&k.faults.Lost, 1, "connection %d: %s: book %d does not build on %d", c.number, k.instruments[at].id, n, last)
	}
	if state && c.snapshots > 0 {
		c.snapshots--
	}
	if last == 0 {
		s[0].first = n
	}
	s[0].last = n
}

// chains reports whether a book update, from its field L, follows message last.
func chains(rest []byte, last uint32) bool {
	const key = `,"L":`
	if !bytes.HasPrefix(rest, []byte(key)) {
		return false
	}
	n := uint32(0)
	for _, d := range rest[len(key):] {
		if d-'0' > 9 {
			break
		}
		n = n*10 + uint32(d-'0')
	}
	return n == last
}

// find returns the instrument of a message from its symbol; negative: not a data message.
func (k *checker) find(q []byte) int32 {
	end := bytes.Index(q, []byte(`,"N":`))
	if end < 0 || end > 128 {
		return -1
	}
	key := q[:end+len(`,"N":`)]
	if at, ok := k.index[string(key)]; ok {
		return at
	}
	_, id, ok := strings.Cut(string(q[:end]), `","I":"`)
	if !ok {
		return -1
	}
	id, delay, ok := strings.Cut(id, `"`)
	if !ok || delay != "" && !strings.HasPrefix(delay, `,"DE":`) {
		return -1
	}
	at := int32(len(k.instruments))
	in := instrument{id: id, tail: string(key)}
	k.instruments = append(k.instruments, in)
	k.index[in.tail] = at
	return at
}

// time returns T of a message in Unix ns, where b begins after the digits of N; 0: none.
func (k *checker) time(b []byte) int64 {
	const before = len(`,"T":"`)
	if len(b) < before+timeSize || b[1] != '"' || b[2] != 'T' {
		return 0
	}
	t := b[before : before+timeSize]
	if [20]byte(t[:20]) != k.second {
		base, err := wire.ParseTime(t)
		if err != nil {
			return 0
		}
		k.second = [20]byte(t[:20])
		k.base = base - base%1e9
	}
	ns := int64(0)
	for _, d := range t[20:29] {
		ns = ns*10 + int64(d-'0')
	}
	return k.base + ns
}

// sample adds the latency of a message, where b begins after the digits of N.
func (k *checker) sample(b []byte) {
	at := k.time(b)
	if at == 0 {
		return
	}
	if k.now == 0 {
		k.now = k.clock()
	}
	k.latency.Add(k.now - at)
}

// advance computes the newest N that all n connections have.
func (k *checker) advance(n int) uint32 {
	if k.reach == nil || n == 0 {
		return 0
	}
	for k.reach[(k.through+1)%reachSize] == uint32(n) {
		k.through++
		k.reach[k.through%reachSize] = 0
	}
	return k.through
}
