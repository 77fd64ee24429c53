package wire

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// TestPack compares encoded messages with bytes written by hand from the MessagePack specification.
func TestPack(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, c := range []struct{ name, in, want string }{
		{"ping", `{"action":"ping"}`, "\x81\xa6action\xa4ping"},
		{"empty", `{}`, "\x80"},
		{"words", `{"a":true,"b":false,"c":null,"d":[]}`, "\x84\xa1a\xc3\xa1b\xc2\xa1c\xc0\xa1d\x90"},
		{"prices are decimals, whole or not", `{"P":7050,"Z":0.5,"BP":-1,"EV":1297000320}`,
			"\x84\xa1P\xd6\x017050\xa1Z\xc7\x03\x010.5\xa2BP\xd5\x01-1\xa2EV\xc7\x0a\x011297000320"},
		{"decimals of 1, 8 and 16 bytes", `{"Z":1,"P":12345.75,"XP":12345678.1234567}`,
			"\x83\xa1Z\xd4\x011\xa1P\xd7\x0112345.75\xa2XP\xd8\x0112345678.1234567"},
		{"levels", `{"B":[[7049.5,300,4],[7049,0]],"A":[]}`,
			"\x82\xa1B\x92\x93\xc7\x06\x017049.5\xc7\x03\x01300\x04\x92\xd6\x017049\xd4\x010\xa1A\x90"},
		{"counts are integers", `{"N":1042,"K":4051739875,"DL":5,"D":184200,"code":200}`,
			"\x85\xa1N\xcd\x04\x12\xa1K\xce\xf1\x80\xa4\xe3\xa2DL\x05\xa1D\xce\x00\x02\xcf\x88\xa4code\xcc\xc8"},
		{"integers", `[0,127,128,255,256,65535,65536,4294967295,4294967296,9007199254740992]`,
			"\x9a\x00\x7f\xcc\x80\xcc\xff\xcd\x01\x00\xcd\xff\xff\xce\x00\x01\x00\x00\xce\xff\xff\xff\xff\xcf\x00\x00\x00\x01\x00\x00\x00\x00\xcf\x00\x20\x00\x00\x00\x00\x00\x00"},
		{"negative integers", `[-1,-32,-33,-128,-129,-32768,-32769,-2147483648,-2147483649,-9223372036854775808]`,
			"\x9a\xff\xe0\xd0\xdf\xd0\x80\xd1\xff\x7f\xd1\x80\x00\xd2\xff\xff\x7f\xff\xd2\x80\x00\x00\x00\xd3\xff\xff\xff\xff\x7f\xff\xff\xff\xd3\x80\x00\x00\x00\x00\x00\x00\x00"},
		{"too great for an integer", `[12345678901234567890]`, "\x91\xc7\x14\x0112345678901234567890"},
		{"inside, keys mean nothing", `{"last":{"P":5,"B":[[1,2]]}}`, "\x81\xa4last\x82\xa1P\x05\xa1B\x91\x92\x01\x02"},
		{"strings", `["` + long[:31] + `","` + long[:32] + `","` + long + `"]`,
			"\x93\xbf" + long[:31] + "\xd9\x20" + long[:32] + "\xda\x01\x2c" + long},
		{"escapes", `{"id":"a\"\u00e9\ud83d\ude00\n","a\u0062":1}`, "\x82\xa2id\xa9a\"é😀\n\xa2ab\x01"},
		{"a long string with an escape", `["\u0061` + long[:40] + `"]`, "\x91\xd9\x29a" + long[:40]},
		{"fifteen items", `[` + strings.Repeat("1,", 14) + `1]`, "\x9f" + strings.Repeat("\x01", 15)},
		{"sixteen items", `[` + strings.Repeat("1,", 15) + `1]`, "\xdc\x00\x10" + strings.Repeat("\x01", 16)},
		{"70,000 items", `[` + strings.Repeat("1,", 69_999) + `1]`, "\xdd\x00\x01\x11\x70" + strings.Repeat("\x01", 70_000)},
		{"sixteen members", `{` + strings.Repeat(`"a":1,`, 15) + `"b":2}`, "\xde\x00\x10" + strings.Repeat("\xa1a\x01", 15) + "\xa1b\x02"},
		{"not JSON", `{"a":}`, "\xa6{\"a\":}"},
		{"not whole", `{"a":[1,`, "\xa8{\"a\":[1,"},
		{"more than one", `{}{}`, "\xa4{}{}"},
		{"too deep", strings.Repeat("[", 17) + strings.Repeat("]", 17), "\xd9\x22" + strings.Repeat("[", 17) + strings.Repeat("]", 17)},
	} {
		if got := string(AppendMsgpack([]byte("-"), []byte(c.in))); got != "-"+c.want {
			t.Errorf("%s:\n got %.200q\nwant %.200q", c.name, got[1:], c.want)
		}
	}
}

// TestPackedMessages encodes and decodes every message of the golden files.
func TestPackedMessages(t *testing.T) {
	for _, m := range allMessages(t) {
		packed := AppendMsgpack(nil, []byte(m))
		text, err := AppendUnpacked(nil, packed)
		if err != nil || string(text) != m {
			t.Errorf("%v\n got %s\nwant %s", err, text, m)
		}
		if len(packed) >= len(m) {
			t.Errorf("%d bytes for %s", len(packed), m)
		}
	}
}

func TestUnpack(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("\x91", n) + "\xc0" }
	for _, c := range []struct{ name, in, want, fault string }{
		{"message", "\x82\xa6action\xa4ping\xa2id\x07", `{"action":"ping","id":7}`, ""},
		{"any width of an integer", "\x98\x05\xcc\x05\xcd\x00\x05\xce\x00\x00\x00\x05\xcf\x00\x00\x00\x00\x00\x00\x00\x05\xd0\xfb\xd2\xff\xff\xff\xfb\xd3\xff\xff\xff\xff\xff\xff\xff\xfb", `[5,5,5,5,5,-5,-5,-5]`, ""},
		{"greatest", "\x92\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xd3\x80\x00\x00\x00\x00\x00\x00\x00", `[18446744073709551615,-9223372036854775808]`, ""},
		{"any width of a string", "\x94\xa1a\xd9\x01a\xda\x00\x01a\xdb\x00\x00\x00\x01a", `["a","a","a","a"]`, ""},
		{"any width of an array and a map", "\x94\xdc\x00\x01\x01\xdd\x00\x00\x00\x01\x01\xde\x00\x01\xa1a\x01\xdf\x00\x00\x00\x01\xd9\x01a\x01", `[[1],[1],{"a":1},{"a":1}]`, ""},
		{"words", "\x93\xc0\xc2\xc3", `[null,false,true]`, ""},
		{"decimals", "\x93\xd4\x015\xc7\x04\x01-0.5\xd8\x0112345678.1234567", `[5,-0.5,12345678.1234567]`, ""},
		{"strings are escaped", "\x91\xa5\"\\\n\x00\x7f", `["\"\\\n\u0000\u007f"]`, ""},
		{"as deep as may be", deep(16), strings.Repeat("[", 16) + "null" + strings.Repeat("]", 16), ""},
		{"too deep", deep(17), "", "nested too deep"},
		{"nothing", "", "", "unexpected end"},
		{"more than one", "\xc0\xc0", "", "bytes after the value"},
		{"cut in a string", "\xa5abc", "", "unexpected end"},
		{"cut in a length", "\xda\x01", "", "unexpected end"},
		{"cut in an integer", "\xcf\x01\x02", "", "unexpected end"},
		{"cut in a map", "\x82\xa1a\x01\xa1b", "", "unexpected end"},
		{"cut in a decimal", "\xc7\x05\x011.5", "", "unexpected end"},
		{"a length of 4 GiB", "\xdb\xff\xff\xff\xff", "", "unexpected end"},
		{"a count of 4 G", "\xdd\xff\xff\xff\xff", "", "unexpected end"},
		{"a map of 4 G", "\xdf\xff\xff\xff\xff", "", "unexpected end"},
		{"float", "\xcb\x40\x14\x00\x00\x00\x00\x00\x00", "", "a type that JSON does not have"},
		{"float of 32 bits", "\xca\x40\xa0\x00\x00", "", "a type that JSON does not have"},
		{"binary", "\xc4\x01a", "", "a type that JSON does not have"},
		{"the type that is never used", "\xc1", "", "a type that JSON does not have"},
		{"long extension", "\xc8\x00\x01\x011", "", "a type that JSON does not have"},
		{"another extension", "\xd6\xff\x00\x00\x00\x00", "", "an extension other than decimals"},
		{"decimal that is none", "\xd6\x0112a4", "", "a decimal that is not a number's text"},
		{"decimal with a brace", "\xd5\x011}", "", "a decimal that is not a number's text"},
		{"decimal of nothing", "\xc7\x00\x01", "", "a decimal that is not a number's text"},
		{"decimal of a sign", "\xd4\x01-", "", "a decimal that is not a number's text"},
		{"key that is a number", "\x81\x01\x01", "", "a key that is not a string"},
		{"key that is a map", "\x81\x80\x01", "", "a key that is not a string"},
		{"string not UTF-8", "\xa2\xc3\x28", "", "a string that is not UTF-8"},
		{"key not UTF-8", "\x81\xa1\xff\x01", "", "a string that is not UTF-8"},
	} {
		got, err := AppendUnpacked(nil, []byte(c.in))
		if c.fault == "" && (err != nil || string(got) != c.want) {
			t.Errorf("%s: got %s, %v", c.name, got, err)
		}
		if c.fault != "" && (!errors.Is(err, ErrMsgpack) || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%s: got %s, %v", c.name, got, err)
		}
	}
}

func TestReadMsgpack(t *testing.T) {
	for _, c := range []struct {
		in, action, id string
		fault          Reason
	}{
		{"\x82\xa6action\xa4ping\xa2id\xa1x", "ping", `"x"`, ""},
		{"\x82\xa6action\xa4ping\xa2id\xcf\x00\x20\x00\x00\x00\x00\x00\x00", "ping", "9007199254740992", ""},
		{"\x82\xa6action\xa4ping\xa6action\xa4ping", "", "", BadJSON},
		{"\x91\xa4ping", "", "", BadJSON},
		{"\x81\xa6action\xcb\x40\x14\x00\x00\x00\x00\x00\x00", "", "", BadJSON},
		{"{\"action\":\"ping\"}", "", "", BadJSON},
		{"\x81\xa2id\x07", "", "7", BadMessage},
	} {
		m, f := ReadMsgpack([]byte(c.in), nil)
		if reason(f) != c.fault || m.Action != c.action || string(m.ID) != c.id {
			t.Errorf("%q: got %q, %s, %v", c.in, m.Action, m.ID, f)
		}
	}
	m, _ := ReadMsgpack(AppendMsgpack(nil, []byte(`{"action":"subscribe","trades":["A|B|C"],"depth":10}`)), nil)
	if s, f := m.Subscribe(); f != nil || len(s.Lists[Trades]) != 1 || s.Depth != 10 {
		t.Errorf("got %+v, %v", s, f)
	}
}

// FuzzUnpack checks that no input panics, that the output is valid JSON (except for duplicate
// names) of bounded size, and that it survives encoding and decoding.
func FuzzUnpack(f *testing.F) {
	for _, m := range allMessages(f) {
		f.Add(AppendMsgpack(nil, []byte(m)))
	}
	f.Add([]byte("\xdf\xff\xff\xff\xff\xa1a\x01"))
	f.Add([]byte("\x92\xc7\x04\x01-0.5\xd3\x80\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		text, err := AppendUnpacked(nil, in)
		if err != nil {
			return
		}
		if len(text) > 6*len(in) {
			t.Errorf("%d bytes of %d", len(text), len(in))
		}
		if _, err := ParseJSON(text); err != nil && !strings.Contains(err.Error(), "given twice") {
			t.Errorf("%s: %v", text, err)
		}
		again, err := AppendUnpacked(nil, AppendMsgpack(nil, text))
		if err != nil || !bytes.Equal(again, text) {
			t.Errorf("%s, then %s, %v", text, again, err)
		}
	})
}
