package talk

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/session/testdata"
	"github.com/ruedahq/rueda/wire"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{`{"a":1}`, `{"a":1}`, true},
		{`{"a":1}`, `{"a":12}`, false},
		{`{"a":...}`, `{"a":12}`, true},
		{`{"a":...}`, `{"b":12}`, false},
		{`...`, ``, true},
		{`a...b`, `ab`, true},
		{`a...a`, `a`, false},
		{`a...b...c`, `a1b2b3c`, true},
		{`a...b...c`, `a1c2c`, false},
		{`a...b...`, `acb`, true},
		{`a.b`, `axb`, false},
	} {
		if got := testdata.Matches(c.pattern, c.text); got != c.want {
			t.Errorf("Matches(%q, %q) is %v", c.pattern, c.text, got)
		}
	}
}

func TestParse(t *testing.T) {
	s, err := Parse("x", "# The rule.\n\na: 3 x > {}\n2 x after 5s\n> a: b x c\n")
	if err != nil {
		t.Fatal(err)
	}
	if s.Rule != "The rule." || s.Duration() != 10*time.Second || s.Stalls() {
		t.Errorf("got rule %q, duration %v", s.Rule, s.Duration())
	}
	for i, want := range []step{
		{Line: 3, Client: "a", Times: 3, Verb: ">", Rest: "{}"}, {Line: 4, Times: 2, Verb: "after", Rest: "5s"}, {Line: 5, Times: 1, Verb: ">", Rest: "a: b x c"},
	} {
		if s.Steps[i] != want {
			t.Errorf("got %+v, want %+v", s.Steps[i], want)
		}
	}
	for text, want := range map[string]string{
		"> {}\n":            "x.talk:1: the first line states the rule",
		"# rule\nwait 5s\n": `x.talk:2: unknown step "wait"`,
	} {
		if _, err := Parse("x", text); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

// echo is a connection on which a message "DURATION TEXT" comes back as TEXT after
// that time, and "close" ends it.
type echo struct{ out chan string }

func (e *echo) Send(_ bool, msg []byte) error {
	delay, text, _ := strings.Cut(string(msg), " ")
	d, err := time.ParseDuration(delay)
	if err != nil {
		return err
	}
	go func() {
		time.Sleep(d)
		e.out <- text
	}()
	return nil
}

func (e *echo) Receive() (string, error) {
	text := <-e.out
	if text == "close" {
		return "", &Closed{Code: 4504, Reason: "pong_timeout"}
	}
	return text, nil
}

func (e *echo) Close() error {
	select {
	case e.out <- "close":
	default: // over already
	}
	return nil
}

// recorder is a test that only notes what failed.
type recorder struct {
	testing.TB
	failed []string
}

func (r *recorder) Helper()                   {}
func (r *recorder) Errorf(f string, a ...any) { r.failed = append(r.failed, fmt.Sprintf(f, a...)) }

// TestRun has the runner find what a script does not say.
func TestRun(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"good", "> 0s hello\n< hel...\n> 5s late\nafter 5s\n< late", ""},
		{"good end", "> 1s close\nafter 1s\nclosed 4504 pong_timeout", ""},
		{"end that nobody awaits", "> 0s close", `at the end: client "": unexpected closed 4504 pong_timeout`},
		{"other text", "> 0s hello\n< hullo", "got < hello"},
		{"nothing", "< hello", "nothing came"},
		{"early", "> 1s hello\nafter 2s\n< hello", "came 1s early: < hello"},
		{"late", "> 2s hello\nafter 1s\n< hello", "nothing came"},
		{"more at the end", "> 0s hello", `at the end: client "": unexpected < hello`},
		{"more in between", "> 0s hello\nnothing", `unexpected < hello`},
		{"other close", "> 0s close\nclosed 4504 slow_client", "got closed 4504 pong_timeout"},
		{"message for close", "> 0s hello\nclosed 4504 pong_timeout", "got < hello"},
		{"close for message", "> 0s close\n< hello", "got closed 4504 pong_timeout"},
		{"cannot stall", "stop reading", "this connection cannot stop reading"},
		{"unknown instrument", "trade X|Y|Z 1 1", "X|Y|Z is not listed"},
		{"bad price", "trade GGAL|BYMA|24hs x 1", "not a plain decimal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := Parse(c.name, "# rule\n"+c.script)
				if err != nil {
					t.Fatal(err)
				}
				w, err := s.World()
				if err != nil {
					t.Fatal(err)
				}
				r := &recorder{TB: t}
				s.Run(r, w, Host{
					Dial:      func(Offer) (Conn, error) { return &echo{make(chan string, 100)}, nil },
					Settle:    synctest.Wait,
					Tolerance: time.Millisecond,
				})
				got := strings.Join(r.failed, "\n")
				if c.want == "" && got != "" || !strings.Contains(got, c.want) {
					t.Errorf("got %q, want %q", got, c.want)
				}
				time.Sleep(time.Minute) // for echoes in flight
			})
		})
	}
}

func TestUnpack(t *testing.T) {
	for _, c := range []struct {
		format        wire.Format
		first         byte
		payload, want string
	}{
		{wire.JSON, 0x81, `{"a":1}`, `{"a":1}`},
		{wire.Batch, 0x81, `[{"a":1},{"b":[2]}]`, `{"a":1} {"b":[2]}`},
		{wire.Msgpack, 0x82, "\x81\xa1a\x01", `{"a":1}`},
		{wire.JSON, 0x82, `{"a":1}`, "a frame that begins with 82"},
		{wire.JSON, 0xc1, `{"a":1}`, "a frame that begins with c1"},
		{wire.Msgpack, 0x81, `{"a":1}`, "a frame that begins with 81"},
		{wire.JSON, 0x81, `[{"a":1}]`, "not a JSON object"},
		{wire.Batch, 0x81, `{"a":1}`, "not an array of messages"},
		{wire.Batch, 0x81, `[]`, "not an array of messages"},
		{wire.Batch, 0x81, `[1]`, "not a JSON object"},
		{wire.Msgpack, 0x82, `{"a":1}`, "bad MessagePack"},
		{wire.Deflate, 0xc1, "\xf2\x48\xcd\xc9\xc9\x07\x00", "5 bytes compressed to 7"},
		{wire.Deflate, 0xc1, "hello", "inflate a frame"},
		{wire.Deflate, 0x81, `{"a":1}`, `{"a":1}`},
	} {
		got, err := Unpack(c.format, c.first, []byte(c.payload))
		text := strings.Join(got, " ")
		if err != nil {
			text = err.Error()
		}
		if !strings.HasPrefix(text, c.want) {
			t.Errorf("format %d, %q: got %s", c.format, c.payload, text)
		}
	}
}

func TestBadSteps(t *testing.T) {
	for _, line := range []string{
		"set nonsense 1", "set connections many", "set connections",
	} {
		s, err := Parse("x", "# rule\n"+line)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.World(); err == nil || !strings.HasPrefix(err.Error(), "x.talk:2: ") {
			t.Errorf("%s: got %v", line, err)
		}
	}
}

func TestForgiveDelay(t *testing.T) {
	for got, want := range map[string]string{
		`{"expires_in":3600,"a":1}`: `{"expires_in":3600,"a":1}`,
		`{"expires_in":3591,"a":1}`: `{"expires_in":3600,"a":1}`,
		`{"expires_in":3589,"a":1}`: `{"expires_in":3589,"a":1}`,
		`{"expires_in":3601,"a":1}`: `{"expires_in":3601,"a":1}`,
		`{"a":1}`:                   `{"a":1}`,
	} {
		if is := forgiveDelay(`{"expires_in":3600,...}`, got); is != want {
			t.Errorf("%s: %s, want %s", got, is, want)
		}
	}
}
