package socket

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
)

// slowConn returns one byte at a time, with a temporary error before each, once it is on.
type slowConn struct {
	net.Conn
	on, pause bool
}

func (d *slowConn) Read(b []byte) (int, error) {
	if d.on {
		if d.pause = !d.pause; d.pause {
			return 0, wouldBlock{}
		}
		b = b[:1]
	}
	return d.Conn.Read(b)
}

// TestTemporaryErrorsDoNotLatch checks what TLS on a shard requires of crypto/tls: after the
// handshake, a temporary read error has no lasting effect at any position in a record. If a Go
// release changes that, Config.TLSByGoroutines of the gateway is the way out.
func TestTemporaryErrorsDoNotLatch(t *testing.T) {
	serve, trust := certificates(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			message := strings.Repeat("0123456789", 2000) // more than one record
			trust := trust.Clone()
			trust.MaxVersion = version
			sent := make(chan error, 1)
			go func() {
				nc, err := tls.Dial("tcp", l.Addr().String(), trust)
				if err == nil {
					_, err = nc.Write([]byte(message))
					nc.Close()
				}
				sent <- err
			}()
			nc, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			d := &slowConn{Conn: nc}
			c := tls.Server(d, serve)
			if err := c.Handshake(); err != nil {
				t.Fatal(err)
			}
			d.on = true
			pauses := 0
			var got []byte
			for b := make([]byte, 64<<10); len(got) < len(message); {
				n, err := c.Read(b)
				got = append(got, b[:n]...)
				switch {
				case errors.Is(err, wouldBlock{}):
					pauses++
				case err != nil:
					t.Fatalf("after %d bytes and %d pauses: %v", len(got), pauses, err)
				}
			}
			if string(got) != message || pauses < len(message)/2 {
				t.Errorf("%d bytes with %d pauses", len(got), pauses)
			}
			if err := <-sent; err != nil {
				t.Error(err)
			}
		})
	}
}
