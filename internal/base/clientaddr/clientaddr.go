// Package clientaddr has the keys by which limits count addresses of clients.
package clientaddr

import "net/netip"

// Client returns what counts as one client: one IPv4 address, or the /64 that one IPv6
// customer has. It returns the zero Prefix for an address that is not known.
func Client(a netip.Addr) netip.Prefix { return prefix(a, 32, 64) }

// Network returns what one owner of addresses is likely to have: the /24 of an IPv4
// address, or the /48 of an IPv6 site.
func Network(a netip.Addr) netip.Prefix { return prefix(a, 24, 48) }

func prefix(a netip.Addr, bits4, bits6 int) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := bits4
	if a.Is6() {
		bits = bits6
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
