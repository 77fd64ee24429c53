// Package deflate compresses and decompresses the payloads of permessage-deflate (RFC 7692) without
// context takeover in either direction. Each message is compressed independently, so one compressed
// form serves every reader, and a connection keeps no window.
//
// [Negotiate] reads the offers of a client. A [Compressor] and a [Decompressor] depend on their
// arguments and scratch memory alone. docs/decisions has the measurements behind this
// implementation.
package deflate
