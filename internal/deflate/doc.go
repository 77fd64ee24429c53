// Package deflate makes and reads the payloads of permessage-deflate (RFC 7692) for
// connections on which neither side takes its context over: every message is compressed for
// itself, so that one compressed form serves every reader, and a connection holds no window.
//
// It is a pure function of its arguments and its scratch memory. docs/decisions has the
// figures that made the compressor our own.
package deflate
