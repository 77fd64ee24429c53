package deflate

import (
	"bytes"
	"compress/flate"
	"errors"
	"strings"
	"testing"
)

// compressed returns a payload compressed by the standard library at any level.
func compressed(t testing.TB, p string, level int) string {
	t.Helper()
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, level)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(p)); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "\x00\x00\xff\xff")
}

func TestDecompress(t *testing.T) {
	const limit = 100_000
	zeros := strings.Repeat("\x00", limit+1)
	for _, c := range []struct {
		name, in, want string
		err            error
	}{
		// The examples of RFC 7692, section 7.2.3.
		{"one block", "\xf2\x48\xcd\xc9\xc9\x07\x00", "Hello", nil},
		{"not compressed", "\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00", "Hello", nil},
		{"a last block", "\xf3\x48\xcd\xc9\xc9\x07\x00\x00", "Hello", nil},
		{"two blocks", "\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00", "Hello", nil},
		{"nothing", "\x00", "", nil},

		{"nothing, as a fixed block", "\x02\x00", "", nil},
		{"a last block and no more", "\xf3\x48\xcd\xc9\xc9\x07\x00", "Hello", nil},
		{"two streams", "\xf3\x48\xcd\xc9\xc9\x07\x00\xf2\x48\xcd\xc9\xc9\x07\x00", "HelloHello", nil},
		{"64 streams", strings.Repeat("\x03\x00", 63) + "\xf2\x48\xcd\xc9\xc9\x07\x00", "Hello", nil},
		{"65 streams", strings.Repeat("\x03\x00", 64) + "\xf2\x48\xcd\xc9\xc9\x07\x00", "", ErrCorrupt},
		{"no byte", "", "", ErrCorrupt},
		{"a type that does not exist", "\x06\x00", "", ErrCorrupt},
		{"stored, its length wrong", "\x00\x05\x00\xfa\xfe\x48\x65\x6c\x6c\x6f\x00", "", ErrCorrupt},
		{"stored, cut off", "\x00\x05\x00\xfa\xff\x48\x65", "", ErrCorrupt},
		{"stored, far too long", "\x00\xff\xff\x00\x00abc", "", ErrCorrupt},
		{"cut off", "\xf2\x48\xcd", "", ErrCorrupt},
		{"a distance before the beginning", "\xf2\x48\x01\x21\x00", "", ErrCorrupt},
		{"text", "Hello", "", ErrCorrupt},
		{"at the limit", compressed(t, zeros[:limit], 9), zeros[:limit], nil},
		{"past the limit", compressed(t, zeros, 9), "", ErrTooBig},
		{"past the limit, stored", compressed(t, zeros, 0), "", ErrTooBig},
		{"long", compressed(t, strings.Repeat("tick size ", 9000), 9), strings.Repeat("tick size ", 9000), nil},
	} {
		var d Decompressor // one that has been used before
		for range 2 {
			got, err := d.Inflate([]byte(c.in), limit)
			if !errors.Is(err, c.err) || err == nil && string(got) != c.want {
				t.Errorf("%s: got %.40q, %v", c.name, got, err)
			}
			if cap(d.out) > limit+1+minOutput {
				t.Errorf("%s: a buffer of %d bytes", c.name, cap(d.out))
			}
			if d.source.payload != nil {
				t.Errorf("%s: the payload is kept", c.name)
			}
			d.Inflate([]byte(compressed(t, strings.Repeat("other ", 500), 9)), limit)
		}
	}
}

// TestBomb checks that decompression stops at the limit: a gigabyte, compressed a thousandfold.
func TestBomb(t *testing.T) {
	var bomb bytes.Buffer
	w, err := flate.NewWriter(&bomb, 9)
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for range 64 {
		w.Write(zeros)
	}
	w.Flush()
	var d Decompressor
	if _, err := d.Inflate(bomb.Bytes(), 64<<10); !errors.Is(err, ErrTooBig) {
		t.Errorf("got %v", err)
	}
	if cap(d.out) > 64<<10+1 {
		t.Errorf("a buffer of %d bytes", cap(d.out))
	}
	allocated := testing.AllocsPerRun(10, func() { d.Inflate(bomb.Bytes(), 64<<10) })
	if allocated > 4 {
		t.Errorf("%v allocations", allocated)
	}
}

// TestRoundTrip checks that the output of the compressor is decompressed and that nothing carries
// over.
func TestRoundTrip(t *testing.T) {
	var c Compressor
	var d Decompressor
	for range 2 {
		for _, m := range marketMessages(t) {
			got, err := d.Inflate(c.Append(nil, []byte(m)), len(m))
			if err != nil || string(got) != m {
				t.Errorf("got %s, %v, want %s", got, err, m)
			}
		}
	}
}

// FuzzDecompress checks that no payload panics or exceeds the limit, that a reused Decompressor
// returns the same as a new one, and that the standard library decompresses accepted payloads to
// the same bytes.
func FuzzDecompress(f *testing.F) {
	for _, m := range marketMessages(f) {
		f.Add([]byte(compressed(f, m, 9)))
	}
	f.Add([]byte("\xf3\x48\xcd\xc9\xc9\x07\x00\x00"))
	f.Add([]byte("\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00"))
	var d Decompressor
	f.Fuzz(func(t *testing.T, in []byte) {
		const limit = 5000
		before := bytes.Clone(in)
		got, err := d.Inflate(in, limit)
		if !bytes.Equal(in, before) {
			t.Error("the payload was written to")
		}
		var fresh Decompressor
		again, errAgain := fresh.Inflate(in, limit)
		if !errors.Is(errAgain, err) || err == nil && !bytes.Equal(again, got) {
			t.Errorf("got %q, %v, a fresh one %q, %v", got, err, again, errAgain)
		}
		if err == nil && len(got) > limit {
			t.Errorf("%d bytes", len(got))
		}
		if err == nil && !bytes.HasPrefix(got, firstStream(in)) {
			t.Errorf("got %q, the standard library begins with %q", got, firstStream(in))
		}
	})
}

func firstStream(in []byte) []byte {
	var out bytes.Buffer
	out.ReadFrom(flate.NewReader(strings.NewReader(string(in) + tail))) // up to its end or error
	return out.Bytes()
}
