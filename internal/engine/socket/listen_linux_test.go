//go:build !386

package socket

import "testing"

// TestListenAddress checks which address a listener binds. [::] is all addresses, of IPv4 too, as
// for net.Listen.
func TestListenAddress(t *testing.T) {
	for address, want := range map[string]string{
		":8080":                 "[::]:8080",
		"[::]:8080":             "[::]:8080",
		"0.0.0.0:8080":          "0.0.0.0:8080",
		"127.0.0.1:8080":        "127.0.0.1:8080",
		"[::1]:8080":            "[::1]:8080",
		"[::ffff:127.0.0.1]:80": "127.0.0.1:80",
		"[fe80::1%lo]:80":       "[fe80::1%lo]:80",
		"localhost:http":        "127.0.0.1:80",
	} {
		where, err := resolve(t.Context(), address)
		if address == ":8080" && where.String() == "0.0.0.0:8080" {
			want = "0.0.0.0:8080" // this machine has no IPv6
		}
		if err != nil || where.String() != want {
			t.Errorf("%s: %v, %v; want %s", address, where, err, want)
		}
	}
	for _, address := range []string{"", "8080", "[::1", "127.0.0.1:x", "[::]:99999"} {
		if where, err := resolve(t.Context(), address); err == nil {
			t.Errorf("%q: %v", address, where)
		}
	}
}
