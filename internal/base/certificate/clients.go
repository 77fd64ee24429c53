package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/ruedahq/rueda/internal/base/reload"
)

// ClientFiles names the files that decide which client certificates are accepted.
type ClientFiles struct {
	Authorities string // certificates of authorities, in PEM
	Revoked     string // lists of revoked certificates (CRL), in PEM or DER; "": none
}

// Clients verifies the certificates of clients. It reads its files again when they change. A file
// that cannot be read then leaves its last content in use, which is logged. It is safe for
// concurrent use.
type Clients struct {
	authorities *reload.File[*authorities]
	revoked     *reload.File[*revocations] // nil: no file
	log         *slog.Logger

	mu    sync.Mutex
	open  map[net.Conn][]*x509.Certificate // connections with their certificates
	basis basis                            // of the last check of all of them
}

// basis is what the verification of a certificate depends on.
type basis struct {
	authorities *authorities
	revoked     *revocations
}

// LoadClients reads the files.
func LoadClients(files ClientFiles, log *slog.Logger) (*Clients, error) {
	c := &Clients{log: log, open: make(map[net.Conn][]*x509.Certificate)}
	var err error
	if c.authorities, err = reload.New(files.Authorities, readAuthorities, log); err != nil {
		return nil, err
	}
	if files.Revoked != "" {
		read := func(name string) (*revocations, error) { return readRevocations(name, c.authorities.Get().list, log) }
		if c.revoked, err = reload.New(files.Revoked, read, log); err != nil {
			return nil, err
		}
	}
	c.basis = c.current()
	return c, nil
}

// Require makes a server configuration accept only clients with a certificate of the authorities
// that is not revoked.
func (c *Clients) Require(config *tls.Config) {
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, c.authorities.Get().pool
	base := config.Clone()
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		now := base.Clone()
		now.ClientCAs = c.authorities.Get().pool
		// It is called for resumed sessions too.
		now.VerifyConnection = func(s tls.ConnectionState) error { return c.admit(hello.Conn, s.PeerCertificates) }
		return now, nil
	}
}

// admit verifies the certificates of a new connection, the client's own first.
func (c *Clients) admit(conn net.Conn, chain []*x509.Certificate) error {
	if len(chain) == 0 {
		return errors.New("the client has no certificate")
	}
	// The connection is added first. If this verification misses a change of the files, the check
	// after that change includes the connection.
	c.mu.Lock()
	c.open[conn] = chain
	c.mu.Unlock()
	err := c.current().verify(chain)
	if err != nil {
		c.mu.Lock()
		delete(c.open, conn)
		c.mu.Unlock()
	}
	return err
}

func (c *Clients) current() basis {
	b := basis{authorities: c.authorities.Get()}
	if c.revoked != nil {
		b.revoked = c.revoked.Get()
	}
	return b
}

// Run closes connections whose certificate is no longer accepted, because it was revoked, has
// expired, or its authority was removed. It checks once a second until ctx ends.
func (c *Clients) Run(ctx context.Context) error {
	tick := time.NewTicker(reload.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			c.check(now)
		}
	}
}

// check verifies open connections again if a file has changed or their certificate has expired.
func (c *Clients) check(now time.Time) {
	b := c.current()
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := b != c.basis
	c.basis = b
	for conn, chain := range c.open {
		if isClosed(conn) {
			delete(c.open, conn)
			continue
		}
		if !changed && !now.After(chain[0].NotAfter) {
			continue
		}
		if err := b.verify(chain); err != nil {
			c.log.Warn("client certificate not accepted any more, connection closed", "error", fmt.Errorf("%q: %w", chain[0].Subject.CommonName, err))
			_ = conn.Close()
			delete(c.open, conn)
		}
	}
}

// verify returns nil if there is a chain to an authority of which no certificate is revoked.
func (b basis) verify(chain []*x509.Certificate) error {
	more := x509.NewCertPool()
	for _, link := range chain[1:] {
		more.AddCert(link)
	}
	chains, err := chain[0].Verify(x509.VerifyOptions{
		Roots: b.authorities.pool, Intermediates: more, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return err
	}
	for _, links := range chains {
		if err = b.revoked.check(links); err == nil {
			return nil
		}
	}
	return err
}

// isClosed reports whether a connection of the system was closed.
func isClosed(c net.Conn) bool {
	for {
		wrapper, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		c = wrapper.NetConn()
	}
	system, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := system.SyscallConn()
	return err != nil || raw.Control(func(uintptr) {}) != nil
}

// authorities are the certificates of a file.
type authorities struct {
	pool *x509.CertPool
	list []*x509.Certificate
}

func readAuthorities(name string) (*authorities, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read the authorities of client certificates: %w", err)
	}
	a := &authorities{pool: x509.NewCertPool()}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read the authorities of client certificates: %s: %w", name, err)
		}
		a.pool.AddCert(one)
		a.list = append(a.list, one)
	}
	if len(a.list) == 0 {
		return nil, fmt.Errorf("read the authorities of client certificates: %s has no certificate in PEM", name)
	}
	return a, nil
}

// revocations are the certificates that the lists of a file revoke. nil: none.
type revocations struct {
	serials map[revocation]struct{}
}

// revocation names a certificate.
type revocation struct{ issuer, serial string }

func revocationOf(issuer []byte, serial *big.Int) revocation {
	return revocation{string(issuer), serial.String()}
}

// check returns an error if one of the certificates is revoked.
func (r *revocations) check(links []*x509.Certificate) error {
	if r == nil {
		return nil
	}
	for _, link := range links {
		if _, found := r.serials[revocationOf(link.RawIssuer, link.SerialNumber)]; found {
			return fmt.Errorf("certificate %v of %q is revoked", link.SerialNumber, link.Issuer.CommonName)
		}
	}
	return nil
}

// maxRevoked bounds a file of revoked certificates, in bytes.
const maxRevoked = 32 << 20

// readRevocations reads a file of revoked certificates. Each list must be signed by one of the
// authorities. An outdated one is used and logged, because the certificates on it stay revoked.
func readRevocations(name string, from []*x509.Certificate, log *slog.Logger) (*revocations, error) {
	fail := func(err error) (*revocations, error) {
		return nil, fmt.Errorf("read the revoked client certificates: %s: %w", name, err)
	}
	info, err := os.Stat(name)
	if err != nil {
		return fail(err)
	}
	if info.Size() > maxRevoked || !info.Mode().IsRegular() {
		return fail(fmt.Errorf("must be a file of at most %d bytes", maxRevoked))
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return fail(err)
	}
	lists := [][]byte{text}
	if block, _ := pem.Decode(text); block != nil {
		lists = nil
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			lists = append(lists, block.Bytes)
		}
	}
	r := &revocations{serials: make(map[revocation]struct{})}
	for _, der := range lists {
		list, err := x509.ParseRevocationList(der)
		if err == nil {
			err = checkList(list, from)
		}
		if err != nil {
			return fail(err)
		}
		if !list.NextUpdate.IsZero() && time.Now().After(list.NextUpdate) {
			log.Warn("list of revoked client certificates is outdated", "file", name, "expires", list.NextUpdate)
		}
		for _, entry := range list.RevokedCertificateEntries {
			r.serials[revocationOf(list.RawIssuer, entry.SerialNumber)] = struct{}{}
		}
	}
	return r, nil
}

// checkList checks that an authority has signed a list, and that the list is complete.
func checkList(list *x509.RevocationList, from []*x509.Certificate) error {
	for _, e := range list.Extensions {
		if e.Critical {
			return fmt.Errorf("the list of %q has the critical extension %v, so that it is not for all certificates", list.Issuer.CommonName, e.Id)
		}
	}
	err := fmt.Errorf("the list is of %q, which is no authority of client_ca", list.Issuer.CommonName)
	for _, a := range from {
		if string(a.RawSubject) != string(list.RawIssuer) {
			continue
		}
		if err = list.CheckSignatureFrom(a); err == nil {
			return nil
		}
	}
	return err
}
