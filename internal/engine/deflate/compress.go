package deflate

import "github.com/klauspost/compress/flate"

// A Compressor compresses payloads. It uses about 0.8 MB from the first payload on, and does not
// allocate otherwise. The zero value is ready to use. A Compressor is not safe for concurrent use.
type Compressor struct {
	writer *flate.Writer
	out    output
}

// output collects the compressed bytes.
type output struct{ b []byte }

func (o *output) Write(p []byte) (int, error) {
	o.b = append(o.b, p...)
	return len(p), nil
}

// level is the fastest level. On messages of a few hundred bytes, the others gain a tenth and take
// a fifth to a half more time.
const level = 1

// Append appends the compressed payload to dst. The result may be slightly longer than payload.
func (c *Compressor) Append(dst, payload []byte) []byte {
	c.out.b = dst
	if c.writer == nil {
		c.writer, _ = flate.NewWriter(&c.out, level) // fails only for an invalid level
	} else {
		c.writer.Reset(&c.out)
	}
	_, _ = c.writer.Write(payload) // output never fails
	_ = c.writer.Flush()
	b := c.out.b
	c.out.b = nil
	// A flush ends with an empty stored block, whose last four bytes, 00 00 ff ff, are omitted (RFC
	// 7692, section 7.2.1).
	return b[:len(b)-4]
}
