package ring

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"
)

// reader is a reader of the model: its cursor, and the number of messages before that.
type reader struct {
	at Cursor[int]
	n  int
}

// TestRingModel compares a ring with a list of all messages, under random appends, commits, trims
// and reads.
func TestRingModel(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		r := New[int]()
		var all [][]byte
		echoes := []int{0} // before each message
		mark, marked, committed := r.Mark(), 0, 0
		readers := make([]reader, 4)
		for i := range readers {
			readers[i].at = r.Tail()
		}
		for range 500 {
			switch rng.IntN(8) {
			case 0:
				mark, marked = r.Mark(), len(all)
			case 1:
				r.Commit(mark)
				committed = marked
			case 2:
				r.Trim() // nobody may notice it
				if committed == len(all) {
					mark, marked = r.Mark(), len(all)
				}
			case 3, 4:
				x := &readers[rng.IntN(len(readers))]
				x.check(t, rng, r.Tail(), all[x.n:committed])
			default:
				all = append(all, bytes.Repeat([]byte{byte(len(all))}, 1+rng.IntN(300)))
				rec := Record[int]{Of: len(all), At: int64(len(all)) * int64(time.Millisecond)}
				if rng.IntN(4) == 0 {
					rec.Flag = Echo
				}
				echoes = append(echoes, echoes[len(echoes)-1]+int(rec.Flag/Echo))
				r.Append(all[len(all)-1], rec)
			}
			if n, shown := r.Echoes(); n != echoes[len(all)] || shown != echoes[committed] {
				t.Fatalf("seed %d: %d echoes and %d committed, want %d and %d", seed, n, shown, echoes[len(all)], echoes[committed])
			}
		}
	}
}

// check compares what waits for a reader with the messages it has not read, and reads some.
func (x *reader) check(t *testing.T, rng *rand.Rand, tail Cursor[int], want [][]byte) {
	t.Helper()
	joined := bytes.Join(want, nil)
	if n, size := x.at.Waiting(tail); n != len(want) || size != len(joined) {
		t.Fatalf("%d messages of %d bytes wait, want %d of %d", n, size, len(want), len(joined))
	}
	if got := x.at.Frames(tail, len(joined)); !bytes.Equal(got, joined) {
		t.Fatalf("frames %v, want %v", got, joined)
	}
	if got := x.at.Frames(tail, len(joined)-1); got != nil && !x.at.SameSegment(tail) {
		t.Fatal("a copy is longer than its limit")
	}
	x.at.Release(tail)
	if x.at.Offset().Before(tail.Offset()) == (len(want) == 0) {
		t.Fatalf("%v before %v, but %d messages wait", x.at.Offset(), tail.Offset(), len(want))
	}
	end := x.at.Ahead(1+rng.IntN(20), tail)
	for _, frame := range want {
		rec, got, ok := x.at.Peek(end)
		if !ok {
			break
		}
		if !bytes.Equal(got, frame) || rec.Of != x.n+1 {
			t.Fatalf("message %d with %v, want %d with %v", rec.Of, got, x.n+1, frame)
		}
		x.at.Next()
		x.n++
	}
	if _, _, ok := x.at.Peek(end); ok {
		t.Fatal("a message at the tail")
	}
}

// TestSegmentsFollowTheRate checks that a segment has about the messages of a second.
func TestSegmentsFollowTheRate(t *testing.T) {
	frame := make([]byte, 100)
	for _, every := range []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, time.Second} {
		r := New[int]()
		for i := range int64(5000) {
			r.Append(frame, Record[int]{At: i * int64(every)})
		}
		second := len(frame) * int(time.Second/every)
		if got := r.SegmentBytes(); got > int64(2*second+2*firstSegment) {
			t.Errorf("a message each %v: the last segment has %d bytes, the messages of a second %d", every, got, second)
		}
	}
}

// BenchmarkAppend appends a trade to a ring. It has no allocations but those of segments.
func BenchmarkAppend(b *testing.B) {
	frame, r := make([]byte, 120), New[*int]()
	b.ReportAllocs()
	at := int64(0)
	for b.Loop() {
		at += int64(20 * time.Microsecond)
		r.Append(frame, Record[*int]{At: at})
	}
}
