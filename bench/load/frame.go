package load

// The key and accept value of every upgrade are fixed, so that programs with fixed answers can be
// measured. They are the example of RFC 6455, section 1.3.
const (
	upgradeKey    = "dGhlIHNhbXBsZSBub25jZQ=="
	upgradeAccept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
)

// mask is the mask of all client frames.
const mask = 0x5A31C7E9
