package deflate

import "github.com/klauspost/compress/flate"

// A Compressor makes compressed payloads. From the first one on it holds about 0.8 MB, and
// does not allocate otherwise. The zero value is ready; it belongs to one goroutine at a time.
type Compressor struct {
	writer *flate.Writer
	out    output
}

// output is what the writer appends to.
type output struct{ b []byte }

func (o *output) Write(p []byte) (int, error) {
	o.b = append(o.b, p...)
	return len(p), nil
}

// level is the quickest: on messages of a few hundred bytes the others gain a tenth
// for a fifth to a half more time.
const level = 1

// Append compresses payload at the end of dst. What it appends may be a little longer
// than payload.
func (c *Compressor) Append(dst, payload []byte) []byte {
	c.out.b = dst
	if c.writer == nil {
		c.writer, _ = flate.NewWriter(&c.out, level) // fails for a wrong level alone
	} else {
		c.writer.Reset(&c.out)
	}
	_, _ = c.writer.Write(payload) // output takes everything
	_ = c.writer.Flush()
	b := c.out.b
	c.out.b = nil
	// A flush ends with an empty stored block, of which the last four bytes, 00 00 ff ff,
	// are left out: the reader puts them there (RFC 7692, section 7.2.1).
	return b[:len(b)-4]
}
