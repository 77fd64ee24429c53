package client_test

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ruedahq/rueda/client"
	rueda "github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/ruedatest"
)

// nameServer is a DNS server that has addresses for every name.
type nameServer struct {
	conn net.PacketConn

	mu        sync.Mutex
	addresses []netip.Addr
	asked     atomic.Int64 // questions
}

func newNameServer(t *testing.T) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{conn: conn}
	var group sync.WaitGroup
	group.Go(s.serve)
	t.Cleanup(func() {
		_ = conn.Close()
		group.Wait()
	})
	return s
}

// set replaces the addresses.
func (s *nameServer) set(addresses ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addresses = nil
	for _, a := range addresses {
		s.addresses = append(s.addresses, netip.MustParseAddr(a))
	}
}

func (s *nameServer) serve() {
	b := make([]byte, 512)
	for {
		n, from, err := s.conn.ReadFrom(b)
		if err != nil {
			return
		}
		if answer := s.answer(b[:n]); answer != nil {
			_, _ = s.conn.WriteTo(answer, from)
		}
	}
}

// answer returns the answer to a question (RFC 1035, section 4), with a time to live of 0.
func (s *nameServer) answer(question []byte) []byte {
	const header, typeA, classIN = 12, 1, 1
	end := header
	for end < len(question) && question[end] != 0 {
		end += int(question[end]) + 1
	}
	if end += 5; end > len(question) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked.Add(1)
	addresses := s.addresses
	if binary.BigEndian.Uint16(question[end-4:]) != typeA {
		addresses = nil
	}
	b := binary.BigEndian.AppendUint16(nil, binary.BigEndian.Uint16(question))
	b = append(b, 0x81, 0x80, 0, 1, 0, byte(len(addresses)), 0, 0, 0, 0)
	b = append(b, question[header:end]...)
	for _, a := range addresses {
		b = append(b, 0xc0, header, 0, typeA, 0, classIN, 0, 0, 0, 0, 0, 4)
		b = append(b, a.AsSlice()...)
	}
	return b
}

// dial is net.Dial with names of this server.
func (s *nameServer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", s.conn.LocalAddr().String())
	}}
	return (&net.Dialer{Resolver: resolver}).DialContext(ctx, network, address)
}

// TestMoves restarts a gateway, and moves it to another address twice. The client has a list of
// URLs, or one name whose addresses change and of which the first is dead. No trade is lost.
func TestMoves(t *testing.T) {
	t.Parallel()
	// Addresses that no other test uses, so that nobody else takes the port between stop and start.
	for by, network := range map[string]string{"list": "127.77.1.", "name": "127.77.2."} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			dead := network + "9"
			places := []string{network + "1", network + "1", network + "2", network + "3"}
			listen := places[0] + ":0"
			s := ruedatest.Start(t, ruedatest.Config{Change: func(c *rueda.Config) { c.Listen = listen }})
			s.Define(instrument(t, ggal))
			port := s.URL[strings.LastIndexByte(s.URL, ':'):]
			names := newNameServer(t)
			names.set(dead, places[0])
			urls := []string{"http://api.broker.test" + port}
			if by == "list" {
				urls = []string{"http://" + places[0] + port, "http://" + places[2] + port, "http://" + places[3] + port}
			}
			c, err := client.New(urls, client.Options{Username: s.Username, Password: client.Secret(s.Password), Insecure: true, Dial: names.dial})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := c.Subscribe(client.Set{Trades: []string{ggal}}); err != nil {
				t.Fatal(err)
			}
			p, a, place := &trades{s: s}, newAccount(t), 0
			follow(t, c, a, uint64(100*len(places)), func(ev client.Event) {
				switch ev := ev.(type) {
				case client.StateChange:
					if ev.State == client.Live {
						p.upTo(100*place + 50)
					}
				case *client.Trade:
					if ev.N != uint64(100*place+50) {
						break
					}
					if place++; place < len(places) {
						s.Stop()
						listen = places[place] + port
						names.set(dead, places[place])
						s.Restart()
					}
					p.upTo(100 * place) // the client is not connected, and resumes
				}
			}, nil)
			if a.lost > 0 || a.got != uint64(100*len(places)) {
				t.Errorf("%d received, %d lost", a.got, a.lost)
			}
			if at := c.Health().URL; by == "list" && at != urls[2] {
				t.Errorf("connected to %s", at)
			}
			if n := names.asked.Load(); (n > 0) != (by == "name") {
				t.Errorf("%d questions for addresses", n)
			}
		})
	}
}
