// Package proxy finds the address of a client behind proxies that are trusted.
//
// Anybody can send X-Forwarded-For or Forwarded (RFC 7239). What a trusted proxy appended to them stands at their
// right end, and what the client sent itself stands left of that. So the lists are read from the right, and only as far as
// each address found is again one of a trusted proxy: the first that is not is the client. A peer that is not
// trusted is the client itself, whatever its headers say.
//
// An entry that is no address ("unknown", a name, garbage) ends the walk: the proxy that told it is then as far as
// anybody knows, and stands for the client. That shares limits among such clients, and never lets
// one choose whom it is taken for. The same goes for the two headers together: where both are there and do not lead to
// the same client, one of them was passed on unread by a proxy that writes the other, and neither is believed.
package proxy
