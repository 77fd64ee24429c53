package frame

import (
	"bytes"
	"testing"
)

func TestSplit(t *testing.T) {
	for _, n := range []int{0, 1, 125, 126, 1<<16 - 1, 1 << 16} {
		payload := bytes.Repeat([]byte("x"), n)
		b := append(AppendHead(nil, Text, n), payload...)
		for cut := range min(len(b), MaxHead+1) {
			if _, _, size := Split(b[:cut]); size != 0 {
				t.Errorf("%d bytes of a frame of %d are whole", cut, n)
			}
		}
		if _, _, size := Split(b[:len(b)-1]); size != 0 {
			t.Errorf("a frame of %d without its last byte is whole", n)
		}
		first, got, size := Split(append(b, "next"...))
		if first != Text || !bytes.Equal(got, payload) || size != len(b) {
			t.Errorf("a frame of %d: %#x, %d bytes, size %d", n, first, len(got), size)
		}
	}
	if _, _, size := Split([]byte{Text, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}); size != 0 {
		t.Error("a frame of 2^64-1 bytes is whole")
	}
}

// TestAppendMasked is the example of RFC 6455, section 5.7.
func TestAppendMasked(t *testing.T) {
	want := []byte{0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58}
	if got := AppendMasked(nil, Text, 0x37fa213d, []byte("Hello")); !bytes.Equal(got, want) {
		t.Errorf("%x", got)
	}
	if got := AppendMasked(nil, Text, 0, make([]byte, 126)); !bytes.HasPrefix(got, []byte{0x81, 0xfe, 0, 126, 0, 0, 0, 0}) {
		t.Errorf("%x", got[:8])
	}
}
