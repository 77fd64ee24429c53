package recording

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire/stream"
)

func meta() *Meta {
	return &Meta{
		Server: "http://127.0.0.1:8080", Began: time.Date(2026, 11, 20, 14, 30, 0, 0, time.UTC), Epoch: "e1",
		Channels: []string{"trades", "quotes", "order_book", "status"}, IDs: []string{"GGAL|BYMA|24hs"},
		Instruments: []Row{json.RawMessage(`{"instrument":"GGAL|BYMA|24hs","symbol":"GGAL","market":"BYMA","term":"24hs","settlement_days":1,"name":"Galicia","kind":"equity","currency":"ARS","multiplier":1,"price_decimals":2,"size_decimals":0,"tick":[[0,0.5]],"lot":1,"status":"open","channels":["trades","quotes","order_book","status"]}`)},
	}
}

const header = `"S":"GGAL","I":"GGAL|BYMA|24hs","N":%d,"T":"2026-11-20T14:30:00.%09dZ"`

// messages returns a stream of n messages.
func messages(n int) []string {
	list := []string{`{"type":"Subscription","code":200,"msg":"Subscribed","id":1,"epoch":"e1","position":"e1:1"}`}
	for i := range n {
		h := fmt.Sprintf(header, i+1, i)
		switch i % 3 {
		case 0:
			list = append(list, fmt.Sprintf(`{"type":"T",%s,"P":%d.5,"Z":10,"X":"%d","G":"B"}`, fmt.Sprintf(header, i/3+1, i), 7000+i%7, i))
		case 1:
			list = append(list, fmt.Sprintf(`{"type":"Q",%s,"BP":7049.5,"BZ":%d,"AP":7050,"AZ":5}`, h, i))
		case 2:
			list = append(list, fmt.Sprintf(`{"type":"O",%s,"R":true,"DL":0,"B":[[7049.5,%d]],"A":[[7050,5]],"K":1}`, h, i))
		}
	}
	return list
}

// write writes a recording and returns its path and content.
func write(t testing.TB, name string, list []string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	w, err := Create(path, CreateConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Begin(meta()); err != nil {
		t.Fatal(err)
	}
	for i, m := range list {
		if err := w.Message(int64(1000+i), []byte(m)); err != nil {
			t.Fatal(err)
		}
		if i%10 == 9 {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// read returns the bodies of a recording, and how it ends.
func read(path string) (bodies []string, torn, err error) {
	r, err := Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			return bodies, r.Torn(), nil
		}
		if err != nil {
			return bodies, nil, err
		}
		bodies = append(bodies, string(line.Body))
	}
}

var endings = []string{"a.jsonl", "a.jsonl.gz", "a.jsonl.zst"}

func TestRoundTrip(t *testing.T) {
	list := messages(500)
	list = append(list, `{"type":"H",`+fmt.Sprintf(header, 9, 9)+`,"E":"open","Y":"`+strings.Repeat("x", 1<<20)+`"}`)
	for _, name := range endings {
		t.Run(name, func(t *testing.T) {
			path := write(t, name, list)
			got, torn, err := read(path)
			if err != nil || torn != nil {
				t.Fatalf("read: %v, torn %v", err, torn)
			}
			if strings.Join(got, "\n") != strings.Join(list, "\n") {
				t.Errorf("%d messages came back, of %d", len(got), len(list))
			}
			r, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if m := r.Meta(); m.Server != meta().Server || m.Epoch != "e1" || len(m.Instruments) != 1 || m.Version != Version {
				t.Errorf("first line %+v", m)
			}
			line, err := r.Next()
			if err != nil || line.At != 1000 || line.Number != 2 {
				t.Errorf("line %+v, %v", line, err)
			}
		})
	}
}

// TestTornLong truncates recordings at every position near their end and at some before. The reader
// returns the beginning of what was written, and reports the truncation unless it is between two
// lines.
func TestTornLong(t *testing.T) {
	list := messages(120)
	for _, name := range endings {
		t.Run(name, func(t *testing.T) {
			path := write(t, name, list)
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			most := 0
			for cut := len(whole) - 1; cut > 0; cut -= 1 + (len(whole)-cut)/40 {
				if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
					t.Fatal(err)
				}
				got, torn, err := read(path)
				var bad *Error
				if err != nil && !errors.As(err, &bad) {
					t.Fatalf("cut at %d: %v", cut, err)
				}
				if err == nil && torn == nil && (name != "a.jsonl" || whole[cut-1] != '\n') {
					t.Fatalf("cut at %d of %d: nobody says so", cut, len(whole))
				}
				for i := range got {
					if got[i] != list[i] {
						t.Fatalf("cut at %d: message %d is %q", cut, i, got[i])
					}
				}
				most = max(most, len(got))
			}
			if most < len(list)-11 {
				t.Errorf("the longest cut gave %d of %d messages; at most one flush of 10 may be lost", most, len(list))
			}
		})
	}
}

// TestContinue appends to complete and truncated recordings.
func TestContinue(t *testing.T) {
	list := messages(60)
	for _, name := range endings {
		for _, cut := range []int{0, 5, 300} {
			t.Run(fmt.Sprintf("%s cut %d", name, cut), func(t *testing.T) {
				path := write(t, name, list)
				info, err := os.Stat(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Truncate(path, info.Size()-int64(cut)); err != nil {
					t.Fatal(err)
				}
				other := filepath.Join(t.TempDir(), "other")
				if err := os.WriteFile(other, []byte("untouched"), 0o600); err != nil {
					t.Fatal(err)
				}
				if cut > 0 && name != "a.jsonl" { // a repair must not follow this link
					if err := os.Symlink(other, path+".repaired"); err != nil {
						t.Fatal(err)
					}
				}
				seen := 0
				w, m, torn, err := Continue(path, func(*Line) error { seen++; return nil })
				if err != nil {
					t.Fatal(err)
				}
				if m.Epoch != "e1" || (torn != nil) != (cut > 0) {
					t.Errorf("first line %+v, torn %v", m, torn)
				}
				if err := errors.Join(w.Note(5000, &Note{Kind: Connected}), w.Message(5001, []byte("{\"type\":\r\n\"CaughtUp\"}")), w.Close()); err != nil {
					t.Fatal(err)
				}
				got, torn, err := read(path)
				want := append(append([]string(nil), list[:seen]...), `{"recording":"connected"}`, `{"type":  "CaughtUp"}`)
				if err != nil || torn != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
					t.Errorf("%v, %v: %d lines, want %d", err, torn, len(got), len(want))
				}
				if text, err := os.ReadFile(other); string(text) != "untouched" {
					t.Errorf("the repair has changed another file: %q, %v", text, err)
				}
				if rest, _ := filepath.Glob(path + ".*"); len(rest) > 0 {
					t.Errorf("left behind: %v", rest)
				}
			})
		}
	}
}

func TestForeignFiles(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", "the file is empty"},
		{"one byte", "x", "not a recording of rueda record"},
		{"capture", "1723161255088176367 {\"stream\":\"btcusdt@trade\"}\n", "not a recording of rueda record"},
		{"binary", "\x00\x01\x02\xff", "not a recording of rueda record"},
		{"gzip of nothing", "\x1f\x8b\x08\x00", "unpack"},
		{"zstd of nothing", "\x28\xb5\x2f\xfd", "unpack"},
		{"newer", `{"rueda":"recording","version":9}` + "\n", "version 9"},
		{"no version", `{"rueda":"recording"}` + "\n", "version 0"},
		{"damaged", `{"rueda":"recording","version":1` + "\n", "first line"},
		{"cut", `{"rueda":"recording","version":1`, "ends within its first line"},
		{"no time", `{"rueda":"recording","version":1}` + "\n{}\n", "receive time"},
		{"time too long", `{"rueda":"recording","version":1}` + "\n99999999999999999999 {}\n", "receive time"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, err := read(path)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q in it", err, tc.want)
			}
		})
	}
}

func TestCreateOverwritesNothing(t *testing.T) {
	path := write(t, "a.jsonl", messages(3))
	if _, err := Create(path, CreateConfig{}); !errors.Is(err, ErrExists) {
		t.Errorf("%v", err)
	}
	w, err := Create(path, CreateConfig{Overwrite: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := read(path); err != nil || len(got) != 4 {
		t.Errorf("overwritten before anything was received: %d lines, %v", len(got), err)
	}
	if err := errors.Join(w.Begin(meta()), w.Close()); err != nil {
		t.Fatal(err)
	}
	if got, _, err := read(path); err != nil || len(got) != 0 {
		t.Errorf("%d lines, %v", len(got), err)
	}
	if _, err := Create(filepath.Join(path, "b"), CreateConfig{}); err == nil {
		t.Error("a file is no folder")
	}
}

func TestDefinitions(t *testing.T) {
	list, err := Definitions(append(meta().Instruments, Row(`{"instrument":"X"}`), Row(`{"instrument":"A|B|C","price_decimals":3,"size_decimals":1,"status":"feed_down","channels":["trades"]}`)))
	if err == nil || !strings.Contains(err.Error(), "definition 2") {
		t.Errorf("error %v", err)
	}
	if len(list) != 2 {
		t.Fatalf("%d definitions", len(list))
	}
	if in := list[0]; in.ID.String() != "GGAL|BYMA|24hs" || in.PriceDecimals != 2 || in.Lot != market.Scale || len(in.Ticks) != 1 || in.Phase != market.Open || in.NoBook {
		t.Errorf("%+v", in)
	}
	if in := list[1]; !in.NoBook || in.PriceDecimals != 3 || in.Phase != market.NoPhase {
		t.Errorf("%+v", in)
	}
}

// TestEvents plays a recording with all kinds of lines.
func TestEvents(t *testing.T) {
	h := func(n int) string { return fmt.Sprintf(header, n, n) }
	lines := []string{
		`{"type":"Subscription","code":200,"epoch":"e1"}`,
		`{"type":"H",` + h(1) + `,"R":true,"E":"open"}`,
		`{"type":"O",` + h(1) + `,"L":7,"B":[[1,2]]}`, // no snapshot yet
		`{"type":"O",` + h(2) + `,"R":true,"DL":0,"B":[[7049.5,3]],"A":[[7050,1]]}`,
		`{"type":"O",` + h(3) + `,"L":2,"B":[[7049.5,0]]}`,
		`{"type":"T",` + h(1) + `,"P":7050,"Z":120,"X":"88","G":"B"}`,
		`{"type":"T",` + h(1) + `,"P":7050,"Z":120,"X":"88","G":"B"}`, // a duplicate
		`{"type":"X",` + h(2) + `,"P":7050,"Z":120,"X":"88","XN":1}`,
		`{"type":"Q",` + h(1) + `,"BP":7049.5,"BZ":3}`,
		`{"type":"O",` + h(5) + `,"L":4,"B":[[7049,1]]}`, // does not connect
		`{"type":"O",` + h(6) + `,"L":5,"B":[[7049,1]]}`,
		`{"recording":"disconnected","reason":"connection broken"}`,
		`{"recording":"connected","instruments":[{"instrument":"NEW|BYMA|CI","price_decimals":0,"size_decimals":0}]}`,
		`{"type":"O",` + h(9) + `,"R":true,"DL":0,"B":[],"A":[]}`,
		`{"type":"H","S":"*","I":"*|BYMA|*","N":1,"E":"feed_down","Y":"line_down"}`,
		`{"type":"H",` + h(2) + `,"E":"halt","Y":"volatility"}`,
		`{"type":"K",` + h(1) + `,"IV":"1m"}`,
		`{"type":"O",` + h(10) + `,"R":true,"DL":0,"B":[],"A":[]}`,
		`{"type":"H",` + h(3) + `,"E":"gap","Y":"line_lost"}`,
		`{"type":"H",` + h(3) + `,"E":"gap","Y":"line_lost"}`, // a duplicate
		`{"type":"H",` + h(4) + `,"E":"feed_down","Y":"line_lost"}`,
		`{"type":"H",` + h(3) + `,"R":true,"E":"halt","Y":"volatility"}`,
	}
	var text bytes.Buffer
	first, err := json.Marshal(&Meta{Format: "recording", Version: 1, Channels: meta().Channels, Instruments: meta().Instruments})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&text, "%s\n", first)
	for i, l := range lines {
		fmt.Fprintf(&text, "%d %s\n", i+1, l)
	}
	text.WriteString("99 {\"typ")
	var b decode.Batch
	var e Events
	n, err := e.Decode(text.Bytes(), &b)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.End(text.Bytes()[n:], &b); err != nil || len(b.Notes) != 1 || b.Notes[0].Reason != "torn_line" {
		t.Errorf("end: %v, notes %v", err, b.Notes)
	}
	var got []string
	for i := range b.Events {
		x := &b.Events[i]
		got = append(got, fmt.Sprintf("%d/%d/%d/%s", x.Handle, x.Kind, x.Receive, x.Reason))
	}
	want := strings.Fields(fmt.Sprintf("0/%d/4/ 0/%d/5/ 0/%d/6/ 0/%d/8/ 0/%d/9/ 0/%d/10/sequence_gap 0/%d/14/ 0/%d/15/feed_down 0/%d/16/volatility 0/%d/18/ 0/%d/19/line_lost",
		market.KindSnapshot, market.KindUpdate, market.KindTrade, market.KindCancel, market.KindQuote, market.KindGap, market.KindSnapshot, market.KindGap, market.KindStatus,
		market.KindSnapshot, market.KindGap))
	// The first status is that of the definition, and no event.
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	ids := []string{}
	for _, in := range b.Listed {
		ids = append(ids, in.ID.String(), in.Phase.String())
		if !in.VirtualClock || !in.QuotesFromFeed || in.NoBook {
			t.Errorf("%+v", in)
		}
	}
	if strings.Join(ids, " ") != "GGAL|BYMA|24hs open NEW|BYMA|CI unknown *|BYMA|* unknown" {
		t.Errorf("listed %v", ids)
	}
}

func FuzzReader(f *testing.F) {
	for _, name := range endings {
		path := write(f, name, messages(9))
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := NewReader("fuzz", bytes.NewReader(text))
		if err != nil {
			return
		}
		defer r.Close()
		var d stream.Decoder
		var m stream.Message
		for range 1000 {
			line, err := r.Next()
			if err != nil {
				return
			}
			_ = d.Decode(line.Body, &m) // an error is fine if it is not a message
		}
	})
}

func FuzzEvents(f *testing.F) {
	var text bytes.Buffer
	first, _ := json.Marshal(&Meta{Format: "recording", Version: 1, Instruments: meta().Instruments})
	fmt.Fprintf(&text, "%s\n", first)
	for i, m := range messages(12) {
		fmt.Fprintf(&text, "%d %s\n", i, m)
	}
	f.Add(text.Bytes())
	f.Fuzz(func(t *testing.T, text []byte) {
		var b decode.Batch
		var e Events
		for at := 0; at < len(text); {
			n, err := e.Decode(text[at:], &b)
			if err != nil || n == 0 {
				return
			}
			at += n
			for i := range b.Events {
				if int(b.Events[i].Handle) >= len(b.Listed) {
					t.Fatalf("event of handle %d, of %d", b.Events[i].Handle, len(b.Listed))
				}
			}
			b.Reset()
		}
	})
}

// TestFullDisk checks that a full disk is reported by the next message and never panics.
func TestFullDisk(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("/dev/full is Linux's (runtime.GOOS)")
	}
	w, err := Create("/dev/full", CreateConfig{Overwrite: true})
	if err != nil {
		t.Fatal(err)
	}
	first := w.Begin(meta())
	if !errors.Is(first, syscall.ENOSPC) || !strings.Contains(first.Error(), "/dev/full") {
		t.Errorf("begin: %v", first)
	}
	for _, err := range []error{w.Message(1, []byte("{}")), w.Note(1, &Note{Kind: End}), w.Flush(), w.Close()} {
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("later: %v", err)
		}
	}
}
