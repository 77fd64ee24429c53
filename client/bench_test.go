package client

import (
	"strconv"
	"testing"
	"time"
)

// BenchmarkTrade measures a trade from its frame to the loop of the program.
func BenchmarkTrade(b *testing.B) {
	c, err := New([]string{"http://127.0.0.1:1"}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	l := &link{engine: &c.engine, ready: true, sent: map[item]*subscribed{}}
	head := []byte(`{"type":"T","S":"GGAL","I":"GGAL|BYMA|24hs","N":`)
	tail := []byte(`,"T":"2026-11-20T14:30:00.123456789Z","D":184200,"P":7050,"Z":120,"X":"88123","G":"B"}`)
	now := time.Now()
	b.ReportAllocs()
	for n := int64(1); b.Loop(); n++ {
		data := append(strconv.AppendInt(append(make([]byte, 0, 160), head...), n, 10), tail...)
		if err := l.receive(b.Context(), frame{data: data, at: now}); err != nil {
			b.Fatal(err)
		}
		e, ok := c.take()
		if !ok {
			b.Fatal("no event")
		}
		c.processed(&e)
	}
}
