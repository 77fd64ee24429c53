package certificate

import (
	"net"
	"testing"
)

// wrapped is a connection around another one.
type wrapped struct{ net.Conn }

func (w wrapped) NetConn() net.Conn { return w.Conn }

// TestIsClosed checks that closed connections of the system are recognized, below wrappers too.
func TestIsClosed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if isClosed(server) || isClosed(wrapped{wrapped{server}}) {
		t.Error("an open connection")
	}
	_ = server.Close()
	if !isClosed(server) || !isClosed(wrapped{wrapped{server}}) {
		t.Error("a closed connection")
	}
}
