package position

import (
	"reflect"
	"testing"
)

// TestText checks the texts of positions.
func TestText(t *testing.T) {
	for want, p := range map[string]Positions{
		"e1:0":              At(0),
		"e1:70":             Of([]Delayed{{0, 70}}),
		"e1:20,0:70":        Of([]Delayed{{0, 70}, {900, 20}}),
		"e1:20,0:70,60:50":  Of([]Delayed{{0, 70}, {60, 50}, {900, 20}}),
		"e1:20,60:50,15:30": Of([]Delayed{{60, 50}, {900, 20}, {0, 20}, {15, 30}}),
		"":                  {Unknown: true},
	} {
		if got := p.Text("e1"); got != want {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
		if want == "" {
			continue
		}
		epoch, q, err := Parse(want)
		if err != nil || epoch != "e1" || !reflect.DeepEqual(p, q) {
			t.Errorf("%s: epoch %q and %+v, %v; want %+v", want, epoch, q, err, p)
		}
		for _, delay := range []int{0, 15, 60, 900} {
			if p.For(delay) != q.For(delay) {
				t.Errorf("%s: delay %d is at %d, want %d", want, delay, q.For(delay), p.For(delay))
			}
		}
	}
}

// TestUnder checks that positions of several delays hold for a client with the same rights, and
// that the earliest counts for one with others, or whose rights are not known.
func TestUnder(t *testing.T) {
	p := Of([]Delayed{{0, 70}, {900, 20}})
	p.Rights = 1<<63 - 1
	text := p.Text("e1")
	if want := "e1:20,0:70,2147483647:9223372036854775807"; text != want {
		t.Fatalf("%q, want %q", text, want)
	}
	_, q, err := Parse(text)
	if err != nil || !reflect.DeepEqual(p, q) {
		t.Fatalf("read as %+v: %v", q, err)
	}
	for rights, want := range map[uint64]uint64{1<<63 - 1: 70, 5: 20, 0: 20} {
		if x := q.Under(rights); x.For(0) != want || x.For(900) != 20 {
			t.Errorf("under rights %d: %+v", rights, x)
		}
	}
	unknown, one := Of([]Delayed{{0, 70}, {900, 20}}), At(70)
	if x := unknown.Under(0); x.For(0) != 20 {
		t.Errorf("without rights: %+v", x)
	}
	if x := one.Under(5); x.For(0) != 70 {
		t.Errorf("of one delay: %+v", x)
	}
}

// FuzzParse checks that a text is refused, or read as positions whose text has the same meaning.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"e1:5", "e1:5,60:7", "e1:", ":5", "e1:5,", "e1:-1", "e1:5,60", "e1:5,60:", "e1:5,60:7,60:8"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		epoch, p, err := Parse(s)
		if err != nil {
			return
		}
		again, q, err := Parse(p.Text(epoch))
		if err != nil || again != epoch || !reflect.DeepEqual(p, q) {
			t.Errorf("%q is read as %s %+v, and that as %s %+v: %v", s, epoch, p, again, q, err)
		}
	})
}
