package auditexport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/base/certificate"
)

// Syslog configures a syslog server that receives rows as messages of RFC 5424.
type Syslog struct {
	// Address is udp://, tcp:// or tls:// with a host and perhaps a port, by default 514, 601 or
	// 6514. Messages on tcp and tls have their length in front (RFC 6587, RFC 5425).
	Address  string
	Format   string // "structured" or "json"; "": structured
	Facility string // such as "local0"; "": authpriv
	SDID     string // name of the structured data; "": DefaultSDID
	// Files of a client certificate and its key, and of CA certificates, in PEM, for tls; "": none,
	// and the authorities of the system.
	Certificate, Key, Authorities string
}

// DefaultSDID has the enterprise number that RFC 5612 reserves for examples.
const DefaultSDID = "rueda@32473"

const (
	// settleTime is how long a connection must stand after rows were written: syslog has no
	// acknowledgement, and an error is reported only after a while.
	settleTime = 5 * time.Second
	// datagramPause is the pause after a datagram, because receivers drop a burst.
	datagramPause = time.Millisecond
)

type syslog struct {
	cfg     Syslog
	network string // udp, tcp or tls
	address string
	encoder encoder

	conn    net.Conn // nil: not connected
	ended   chan struct{}
	reading sync.WaitGroup // the goroutine that notices the end of conn
	out     []byte
}

// defaultPorts has the networks with their default ports.
func defaultPorts() map[string]string {
	return map[string]string{"udp": "514", "tcp": "601", "tls": "6514"}
}

// NewSyslog returns the receiver. It reads the files, but does not connect.
func NewSyslog(cfg Syslog) (Receiver, error) {
	at, err := url.Parse(cfg.Address)
	if err != nil || at.Hostname() == "" || defaultPorts()[at.Scheme] == "" || at.User != nil || at.Path != "" || at.RawQuery != "" || at.Fragment != "" {
		return nil, errors.New("address is not like tls://siem.broker.example:6514, with udp, tcp or tls")
	}
	port := at.Port()
	if port == "" {
		port = defaultPorts()[at.Scheme]
	}
	s := &syslog{cfg: cfg, network: at.Scheme, address: net.JoinHostPort(at.Hostname(), port)}
	if s.network != "tls" && (cfg.Certificate != "" || cfg.Key != "" || cfg.Authorities != "") {
		return nil, errors.New("ca, certificate and key are for an address with tls")
	}
	if _, err := s.secure(); err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	s.encoder, err = newEncoder(cfg, host, os.Getpid())
	return s, err
}

func (s *syslog) secure() (*tls.Config, error) {
	return certificate.ClientConfig(s.cfg.Certificate, s.cfg.Key, s.cfg.Authorities)
}

// Name implements Receiver.
func (s *syslog) Name() string { return "syslog" }

// Settle implements Receiver.
func (s *syslog) Settle() time.Duration {
	if s.network == "udp" {
		return 0
	}
	return settleTime
}

// Check implements Receiver.
func (s *syslog) Check() error {
	select {
	case <-s.ended:
		return fmt.Errorf("%s closed the connection", s.address)
	default:
		return nil
	}
}

// Close implements Receiver.
func (s *syslog) Close() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.reading.Wait()
		s.conn, s.ended = nil, nil
	}
}

// connect connects, unless there is a connection.
func (s *syslog) connect(ctx context.Context) (err error) {
	if s.conn != nil {
		return s.Check()
	}
	dialer := &net.Dialer{KeepAlive: 5 * time.Second}
	if s.network == "tls" {
		secure, err := s.secure() // read again, because files may have been replaced
		if err != nil {
			return err
		}
		s.conn, err = (&tls.Dialer{NetDialer: dialer, Config: secure}).DialContext(ctx, "tcp", s.address)
		if err != nil {
			s.conn = nil
			return err
		}
	} else if s.conn, err = dialer.DialContext(ctx, s.network, s.address); err != nil {
		s.conn = nil
		return err
	}
	conn, ended := s.conn, make(chan struct{})
	s.ended = ended
	s.reading.Go(func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, conn) // a server sends nothing, or closes
	})
	return nil
}

// Send implements Receiver.
func (s *syslog) Send(ctx context.Context, rows []audit.Row) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	conn := s.conn
	stop := context.AfterFunc(ctx, func() { _ = conn.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	if s.network == "udp" {
		return s.sendDatagrams(ctx, rows)
	}
	s.out = s.out[:0]
	for i := range rows {
		s.out = s.encoder.appendFrame(s.out, &rows[i])
	}
	_, err := conn.Write(s.out)
	return err
}

func (s *syslog) sendDatagrams(ctx context.Context, rows []audit.Row) error {
	for i := range rows {
		s.out = s.encoder.appendMessage(s.out[:0], &rows[i])
		if _, err := s.conn.Write(s.out); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(datagramPause):
		}
	}
	return nil
}
