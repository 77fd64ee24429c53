//go:build !386

package socket

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// BenchmarkFlush measures the cost of a message for a reader without the socket: 1,000 readers of
// one topic write to /dev/null. Subtract the cost of the system calls.
func BenchmarkFlush(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	fd := int32(null.Fd())
	for _, readers := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(readers), func(b *testing.B) {
			p := newPublisher(b)
			s := newServer(func(c *Config) { p.config(c); c.FlushInterval = -1 })
			sh := s.shards[0]
			now := time.Now()
			for range readers {
				id, _ := verify(b.Context(), "ana")
				c := &conn{shard: sh, fd: fd, optional: new(optional)}
				c.handshake = &handshakeState{conn: c, identity: id}
				sh.register(c)
				sh.startSession(now, c)
				c.sess.Text(now, []byte(`{"action":"subscribe","trades":["`+testInstrument+`"],"snapshot":false}`))
				sh.flush(now, c)
			}
			p.publish(1)
			sh.runOnce(now)
			b.ReportAllocs()
			for b.Loop() {
				p.publish(1)
				sh.runOnce(time.Now())
			}
			took := b.Elapsed()
			if sh.counts.writes.Load() < uint64(b.N*readers) {
				b.Fatal("not all was written")
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(b.N)/float64(readers), "ns/write")
			start := time.Now()
			msg := make([]byte, 123)
			for range 100_000 {
				sh.kernel.write(fd, msg)
			}
			b.ReportMetric(float64(time.Since(start).Nanoseconds())/100_000, "ns/call")
			for _, c := range sh.table {
				sh.endSession(c)
			}
		})
	}
}
