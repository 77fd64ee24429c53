package command

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// CheckURL checks the address of a gateway or of its stream, and reports whether it is this
// machine. It refuses addresses that would send a password unencrypted, except to this machine.
func CheckURL(address string) (local bool, err error) {
	const advice = "Use an address like http://127.0.0.1:8080 or https://api.broker.example"
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return false, notURL(address, advice)
	}
	local = isThisMachine(u.Hostname())
	switch u.Scheme {
	case "https", "wss":
	case "http", "ws":
		if !local {
			return false, Fail(ExitUsage, fmt.Errorf("%s would send the password unencrypted", address), "Use https://"+u.Host)
		}
	default:
		return false, notURL(address, advice)
	}
	return local, nil
}

func notURL(address, advice string) error {
	return Fail(ExitUsage, fmt.Errorf("%q is not the address of a gateway", address), cmp.Or(WithScheme(address), advice))
}

// WithScheme returns the advice for an address that only lacks its scheme or the slashes after it,
// "" for others.
func WithScheme(address string) string {
	if strings.Contains(address, "://") {
		return ""
	}
	for _, scheme := range []string{"http", "https"} {
		if rest, ok := strings.CutPrefix(address, scheme+":"); ok && strings.Trim(rest, "/") == "" {
			return ""
		} else if ok {
			return "Two slashes follow the scheme: " + scheme + "://" + strings.TrimLeft(rest, "/")
		}
	}
	scheme := "https://"
	if u, err := url.Parse("http://" + address); err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return ""
	} else if isThisMachine(u.Hostname()) {
		scheme = "http://"
	}
	return "The scheme is missing: " + scheme + address
}

func isThisMachine(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.Unmap().IsLoopback()
}
