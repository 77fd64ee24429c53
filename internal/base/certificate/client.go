package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// ClientConfig returns the TLS configuration of a client. certificate and key are files of its
// certificate, read for each connection; both "": none. authorities is a file of CA certificates;
// "": those of the system.
func ClientConfig(certificate, key, authorities string) (*tls.Config, error) {
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if authorities != "" {
		text, err := os.ReadFile(authorities)
		if err != nil {
			return nil, fmt.Errorf("read the authorities: %w", err)
		}
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s holds no certificate", authorities)
		}
	}
	if certificate != "" || key != "" {
		read := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(certificate, key)
			if err != nil {
				return nil, fmt.Errorf("read the client certificate: %w", err)
			}
			return &pair, nil
		}
		if _, err := read(nil); err != nil {
			return nil, err
		}
		secure.GetClientCertificate = read
	}
	return secure, nil
}
