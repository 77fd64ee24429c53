package broker

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ParseNetwork parses a network in CIDR notation, or an address. Bits after the prefix must be 0,
// and an IPv4 network must be written in IPv4 form.
func ParseNetwork(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if a, addressErr := netip.ParseAddr(text); err != nil && addressErr == nil && a.Zone() == "" {
		p, err = netip.PrefixFrom(a, a.BitLen()), nil
	}
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("%q is not a network such as 192.0.2.0/24, or an address", text)
	case p.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("network %s is IPv4: write it so", p)
	case p != p.Masked():
		return netip.Prefix{}, fmt.Errorf("network %s has bits after its prefix: did you mean %s?", p, p.Masked())
	}
	return p, nil
}

// ParseNetworks parses a list of networks. For an empty list it returns nil.
func ParseNetworks(texts []string) (list []netip.Prefix, err error) {
	for _, text := range texts {
		p, err := ParseNetwork(text)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// AddressAllowed reports whether a client with an address may use an account with these networks.
// Without networks every client may. The zero address and 0.0.0.0, which stands for an unclear
// address, are in no network.
func AddressAllowed(networks []netip.Prefix, address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	return len(networks) == 0 || !address.IsUnspecified() &&
		slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(address) })
}

// checkNetworks returns what is wrong with the networks of a user.
func checkNetworks(networks []netip.Prefix) error {
	if len(networks) > maxEntitlements {
		return fmt.Errorf("user has more than %d networks", maxEntitlements)
	}
	for _, p := range networks {
		if _, err := ParseNetwork(p.String()); err != nil {
			return err
		}
	}
	return nil
}

// FormatNetworks returns networks as a list with commas.
func FormatNetworks(networks []netip.Prefix) string {
	words := make([]string, len(networks))
	for i, p := range networks {
		words[i] = p.String()
	}
	return strings.Join(words, ",")
}
