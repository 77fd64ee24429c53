//go:build unix

// Package ldaptest gives tests a private LDAP directory: a slapd in a temporary folder, on free
// loopback ports, which ends with the test.
package ldaptest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Suffix, administrator and password of every directory.
const (
	Suffix        = "dc=broker,dc=example"
	Admin         = "cn=admin," + Suffix
	AdminPassword = "admin-password"
)

// Server is a running slapd.
type Server struct {
	URL         string // ldap://127.0.0.1:port, with StartTLS
	SecureURL   string // ldaps://127.0.0.1:port
	Authorities string // file with the certificate authority of its certificate

	folder string
	slapd  string
	cmd    *exec.Cmd
	waited chan struct{}
}

// Start starts a directory with the entries of an LDIF text, below Suffix, and stops it when t
// ends. A client that has bound with the DN reader may read everything except passwords, others
// nothing. If slapd is not installed, the test is skipped, or fails if RUEDA_REQUIRE_ALL is set.
func Start(t testing.TB, reader, ldif string) *Server {
	t.Helper()
	slapd, err := find()
	if err != nil {
		if os.Getenv("RUEDA_REQUIRE_ALL") != "" {
			t.Fatal(err)
		}
		t.Skipf("%v; apt-get install slapd gives it", err)
	}
	s := &Server{slapd: slapd, folder: t.TempDir()}
	t.Cleanup(s.Kill)
	if err := s.prepare(reader, ldif); err != nil {
		t.Fatal(err)
	}
	ports, err := freePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	s.URL, s.SecureURL = fmt.Sprintf("ldap://127.0.0.1:%d", ports[0]), fmt.Sprintf("ldaps://127.0.0.1:%d", ports[1])
	s.Restart(t)
	return s
}

const configuration = `include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload memberof
moduleload ppolicy
pidfile {folder}/slapd.pid
TLSCertificateFile {folder}/tls.crt
TLSCertificateKeyFile {folder}/tls.key
database mdb
suffix "{suffix}"
rootdn "{admin}"
rootpw {password}
directory {folder}/data
maxsize 16777216
dbnosync
overlay memberof
overlay ppolicy
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="{reader}" read by anonymous auth by * none
`

// prepare writes the configuration, a certificate and the entries.
func (s *Server) prepare(reader, ldif string) error {
	if err := os.Mkdir(filepath.Join(s.folder, "data"), 0o700); err != nil {
		return err
	}
	if err := s.certificate(); err != nil {
		return fmt.Errorf("make a certificate: %w", err)
	}
	text := strings.NewReplacer("{folder}", s.folder, "{suffix}", Suffix, "{admin}", Admin,
		"{password}", AdminPassword, "{reader}", reader).Replace(configuration)
	if err := os.WriteFile(s.file("slapd.conf"), []byte(text), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(s.file("entries.ldif"), []byte(ldif), 0o600); err != nil {
		return err
	}
	add := exec.Command(s.slapd, "-Tadd", "-q", "-f", s.file("slapd.conf"), "-l", s.file("entries.ldif"))
	if out, err := add.CombinedOutput(); err != nil {
		return fmt.Errorf("slapadd: %w\n%s", err, out)
	}
	return nil
}

func (s *Server) file(name string) string { return filepath.Join(s.folder, name) }

func (s *Server) certificate() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	s.Authorities = s.file("tls.crt")
	return errors.Join(
		os.WriteFile(s.Authorities, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), 0o600),
		os.WriteFile(s.file("tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

// Kill ends the server and all its connections at once.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.waited
	s.cmd = nil
}

// Stall suspends the server: the system accepts connections, and nothing answers. Resume continues
// it.
func (s *Server) Stall() error { return s.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends Stall.
func (s *Server) Resume() error { return s.cmd.Process.Signal(syscall.SIGCONT) }

// Restart starts a server that was killed, with its entries and on its ports.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.cmd = exec.Command(s.slapd, "-h", s.URL+"/ "+s.SecureURL+"/", "-f", s.file("slapd.conf"), "-d", "0")
	var log strings.Builder
	s.cmd.Stdout, s.cmd.Stderr = &log, &log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.waited = make(chan struct{})
	go func(cmd *exec.Cmd, waited chan struct{}) { // Kill waits for it
		defer close(waited)
		_ = cmd.Wait()
	}(s.cmd, s.waited)
	for late := time.After(time.Minute); ; {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "ldap://"))
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-s.waited:
			t.Fatalf("slapd ended:\n%s", log.String())
		case <-late:
			t.Fatal("slapd does not answer")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// find returns the path of slapd, which may be in a folder for administrators outside of the PATH.
func find() (string, error) {
	if p, err := exec.LookPath("slapd"); err == nil {
		return p, nil
	}
	for _, p := range []string{"/usr/sbin/slapd", "/usr/local/sbin/slapd"} {
		if _, err := os.Stat(p); err == nil {
			return p, nil
		}
	}
	return "", errors.New("slapd is not installed")
}

func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, l.Close()) }()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
