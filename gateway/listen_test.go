package gateway

import (
	"errors"
	"net"
	"testing"
)

func TestCheckAddress(t *testing.T) {
	for _, tc := range []struct {
		listen   string
		insecure bool
		ok       bool
	}{
		{"127.0.0.1:8080", false, true},
		{"[::1]:0", false, true},
		{"localhost:8080", false, true},
		{"0.0.0.0:8080", false, false},
		{":8080", false, false},
		{"192.0.2.7:8080", false, false},
		{"0.0.0.0:8080", true, true},
	} {
		err := checkAddress(&Config{Listen: tc.listen, Insecure: tc.insecure})
		if (err == nil) != tc.ok || err != nil && !errors.Is(err, ErrInsecure) {
			t.Errorf("%s, insecure %v: error %v", tc.listen, tc.insecure, err)
		}
	}
	if err := checkAddress(&Config{Listen: "8080"}); err == nil || errors.Is(err, ErrInsecure) {
		t.Errorf("no port: error %v", err)
	}
	for _, port := range []string{"99999", "65536", "-1", "nonsense"} {
		if err := checkAddress(&Config{Listen: "127.0.0.1:" + port}); err == nil {
			t.Errorf("port %s: no error", port)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:80": true, "127.9.9.9:80": true, "[::1]:80": true, "[::ffff:127.0.0.1]:80": true,
		"0.0.0.0:80": false, "[::]:80": false, "10.0.0.1:80": false,
	} {
		a, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if isLoopback(a) != want {
			t.Errorf("%s: loopback %v", address, !want)
		}
	}
}
