// Package certtest writes TLS certificates for tests.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/base/certificate"
)

// Write writes tls.crt and tls.key into folder: a new self-signed certificate for 127.0.0.1 that is
// valid for an hour. name is its common name.
func Write(t testing.TB, folder, name string) certificate.Files {
	t.Helper()
	return WriteUntil(t, folder, name, time.Now().Add(time.Hour))
}

// WriteUntil is like Write, with the end of the certificate.
func WriteUntil(t testing.TB, folder, name string, end time.Time) certificate.Files {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: end.Add(-2 * time.Hour), NotAfter: end,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	files := certificate.Files{Certificate: filepath.Join(folder, "tls.crt"), Key: filepath.Join(folder, "tls.key")}
	for path, block := range map[string]*pem.Block{
		files.Certificate: {Type: "CERTIFICATE", Bytes: der},
		files.Key:         {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}
