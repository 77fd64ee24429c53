package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority is a certificate authority of client certificates.
type Authority struct {
	testing.TB
	File string // its certificate, in PEM

	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64 // of the last certificate
	lists       int64 // number of the last list
}

// NewAuthority returns a new authority for ten years.
func NewAuthority(t testing.TB, name string) *Authority {
	t.Helper()
	a := &Authority{TB: t, File: filepath.Join(t.TempDir(), "authority.crt"), key: newKey(t), serial: 1}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err == nil {
		a.certificate, err = x509.ParseCertificate(der)
	}
	if err == nil {
		err = os.WriteFile(a.File, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Issue returns a client certificate that ends at a time.
func (a *Authority) Issue(name string, end time.Time) tls.Certificate {
	a.Helper()
	a.serial++
	key := newKey(a)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		a.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// Revoke returns a list of revoked certificates, in DER, whose next update is in an hour, with
// the extensions.
func (a *Authority) Revoke(revoked []tls.Certificate, extensions ...pkix.Extension) []byte {
	a.Helper()
	a.lists++
	list := &x509.RevocationList{
		Number: big.NewInt(a.lists), ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour), ExtraExtensions: extensions,
	}
	for _, c := range revoked {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{
			SerialNumber: c.Leaf.SerialNumber, RevocationTime: time.Now(),
		})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.certificate, a.key)
	if err != nil {
		a.Fatal(err)
	}
	return der
}
