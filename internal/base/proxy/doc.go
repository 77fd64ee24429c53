// Package proxy determines the address of a client behind trusted proxies.
//
// Anyone can send X-Forwarded-For or Forwarded (RFC 7239). A trusted proxy appends its entry at the
// right end of these lists, after whatever the client sent. [Trusted.Client] therefore reads the
// lists from the right, as long as each address is that of a trusted proxy: the first one that is
// not is the client. If the peer of the connection is not trusted, it is the client itself,
// whatever its headers contain.
//
// If an entry is not an address ("unknown", a name, garbage), the client is [Unknown]. If both
// headers are present and lead to different clients, one of them was passed on unchecked by a proxy
// that writes the other, and the client is Unknown too. Such clients share their limits, and none
// can choose the address it is taken for. In particular it is not that of the proxy, which may be
// in the networks to which an account is limited.
package proxy
