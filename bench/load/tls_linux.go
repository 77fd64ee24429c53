package load

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/base/frame"
)

// openTLS opens TLS connections, to measure a server's memory for them: each has a goroutine, which
// answers pings and only counts messages.
func (l *loop) openTLS(cfg *Config, proto *protocol, pids []int) (*Opened, error) {
	text, err := os.ReadFile(cfg.Certificate)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate", cfg.Certificate)
	}
	before, err := readTimes(pids)
	if err != nil {
		return nil, err
	}
	s := &secure{cfg: cfg, proto: proto, tls: &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS13}}
	if err := s.openAll(); err != nil {
		return nil, err
	}
	after, err := readTimes(pids)
	if err != nil {
		return nil, err
	}
	err = l.do(func() error {
		if l.cfg != nil {
			return errors.New("connections are open already")
		}
		l.check = newChecker(cfg.Sample, false, func() int64 { return time.Now().UnixNano() })
		l.cfg, l.secure = cfg, s
		return nil
	})
	o := &Opened{Conns: cfg.Conns, Seconds: after.at - before.at, Self: after.self - before.self, Busy: after.busy - before.busy}
	for i := range after.servers {
		o.Servers = append(o.Servers, after.servers[i]-before.servers[i])
	}
	return o, err
}

// secure is the connections with TLS.
type secure struct {
	cfg      *Config
	proto    *protocol
	tls      *tls.Config
	open     atomic.Int64
	pings    atomic.Uint64
	messages atomic.Uint64
	all      sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
	fault error // first error
}

func (s *secure) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == nil {
		s.fault = err
	}
}

func (s *secure) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

// openAll opens them, up to the limit of concurrent attempts.
func (s *secure) openAll() error {
	var next atomic.Int64
	var openers sync.WaitGroup
	for range min(32, s.cfg.Opening) {
		openers.Go(func() {
			for s.failed() == nil {
				i := int(next.Add(1)) - 1
				if i >= s.cfg.Conns {
					return
				}
				if err := s.openOne(i); err != nil {
					s.fail(fmt.Errorf("connection %d: %w", i, err))
				}
			}
		})
	}
	openers.Wait()
	return s.failed()
}

func (s *secure) openOne(i int) error {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%s.cfg.Sources))}, Timeout: openPatience}
	nc, err := tls.DialWithDialer(dialer, "tcp", s.cfg.Address, s.tls)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.conns = append(s.conns, nc)
	s.mu.Unlock()
	in := bufio.NewReaderSize(nc, 512)
	if err := nc.SetDeadline(time.Now().Add(openPatience)); err != nil {
		return err
	}
	if _, err := nc.Write(appendUpgrade(nil, s.cfg, s.proto, i)); err != nil {
		return err
	}
	for first := true; ; first = false {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		if first && !bytes.HasPrefix([]byte(line), []byte("HTTP/1.1 101")) {
			return fmt.Errorf("upgrade answered with %q", line)
		}
		if line == "\r\n" {
			break
		}
	}
	if err := s.steps(nc, in, i); err != nil {
		return err
	}
	if err := nc.SetDeadline(time.Time{}); err != nil {
		return err
	}
	s.open.Add(1)
	s.all.Go(func() {
		defer s.open.Add(-1)
		if err := s.follow(nc, in); !errors.Is(err, net.ErrClosed) {
			s.fail(fmt.Errorf("connection %d: %w", i, err))
		}
	})
	return nil
}

// steps makes a connection ready.
func (s *secure) steps(nc net.Conn, in *bufio.Reader, i int) error {
	for k := range s.proto.steps {
		st := &s.proto.steps[k]
		if st.send != nil {
			if _, err := nc.Write(frame.AppendMasked(nil, frame.Text, mask, st.send(nil, s.cfg, i))); err != nil {
				return err
			}
		}
		for st.got != nil {
			_, payload, err := readFrame(in, nil)
			if err != nil {
				return err
			}
			if ok, err := st.got(payload); err != nil {
				return err
			} else if ok {
				break
			}
		}
	}
	for n := s.cfg.set(i).Snapshots; n > 0; {
		_, payload, err := readFrame(in, nil)
		if err != nil {
			return err
		}
		if bytes.Contains(payload, []byte(`"R":true`)) {
			n--
		}
	}
	return nil
}

// follow reads until the connection ends.
func (s *secure) follow(nc net.Conn, in *bufio.Reader) error {
	pong := frame.AppendMasked(nil, frame.Text, mask, []byte(`{"action":"pong"}`))
	var buf []byte
	for {
		op, payload, err := readFrame(in, buf)
		switch {
		case err != nil:
			return err
		case op == frame.Close:
			return fmt.Errorf("closed: %.100q", payload)
		case bytes.Equal(payload, []byte(`{"action":"ping"}`)):
			s.pings.Add(1)
			if _, err := nc.Write(pong); err != nil {
				return err
			}
		default:
			s.messages.Add(1)
		}
		buf = payload
	}
}

// close closes all of them.
func (s *secure) close() {
	s.mu.Lock()
	conns := s.conns
	s.mu.Unlock()
	for _, nc := range conns {
		_ = nc.(*tls.Conn).NetConn().Close() // immediately, without close_notify
	}
	s.all.Wait()
}

// readFrame reads a frame; it uses buf for the payload if it is large enough.
func readFrame(in *bufio.Reader, buf []byte) (op byte, payload []byte, err error) {
	var head [10]byte
	if _, err := io.ReadFull(in, head[:2]); err != nil {
		return 0, nil, err
	}
	n := 0
	switch head[1] {
	case 126:
		n = 2
	case 127:
		n = 8
	}
	if _, err := io.ReadFull(in, head[2:2+n]); err != nil {
		return 0, nil, err
	}
	size := int(head[1])
	if n > 0 {
		size = 0
		for _, b := range head[2 : 2+n] {
			size = size<<8 | int(b)
		}
	}
	if size > cap(buf) {
		buf = make([]byte, size)
	}
	_, err = io.ReadFull(in, buf[:size])
	return head[0], buf[:size], err
}
