package session_test

import (
	"encoding/binary"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/entitlement"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/testing/talk"
)

// FuzzSession sends lines of text as messages to a session. The bytes of script insert time,
// writes, market events and other events. The session must not panic, must send only whole frames
// of JSON objects, must not request a tick that is already past, and must release its place in the
// registry.
func FuzzSession(f *testing.F) {
	scripts, err := talk.Load(os.DirFS("testdata"))
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range scripts {
		var text strings.Builder
		for line := range strings.Lines(s.Text) {
			if _, msg, ok := strings.Cut(line, "> "); ok {
				text.WriteString(msg)
			}
		}
		f.Add(text.String(), []byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b"), true)
		f.Add(text.String(), []byte{}, false)
	}
	f.Fuzz(func(t *testing.T, text string, script []byte, known bool) {
		token := ""
		if known {
			token = "demo"
		}
		d := newDrive(t, token)
		for line := range strings.SplitSeq(text, "\n") {
			d.text(line)
			if len(script) > 0 {
				d.happen(script[0])
				script = script[1:]
			}
			if token, _, ok := d.sess.TakeToken(); ok {
				id, fault := d.world.Env.Verify(t.Context(), token)
				d.sess.Handle(d.now, session.Event{Kind: session.Verified, Identity: id, Fault: fault})
			}
			for _, n := range d.notices {
				d.sess.Handle(d.now, n)
			}
			d.notices = nil
		}
		d.take()
		if code, reason, ok := d.sess.Close(); ok && (code < 4400 || code > 4507 || reason == "") {
			t.Errorf("close %d %q", code, reason)
		}
		d.sess.PeerGone()
		if n := d.world.Env.Registry.Len(); n != 0 {
			t.Errorf("%d sessions are left in the registry", n)
		}
	})
}

// happen does one action that is not a client's message.
func (d *drive) happen(what byte) {
	r := d.world.Env.Registry
	switch what % 12 {
	case 0:
		d.take()
	case 1:
		d.pass(time.Duration(what) * 200 * time.Millisecond)
	case 2:
		d.pass(time.Duration(what) * 10 * time.Minute)
	case 3:
		_, n := d.gather()
		d.sess.Wrote(d.now, n/2)
		d.pass(time.Duration(what) * time.Second)
		d.sess.Wrote(d.now, n-n/2)
	case 4:
		r.Extend("f1", d.now.Add(time.Duration(binary.BigEndian.Uint16([]byte{what, what}))*time.Second))
	case 5:
		r.GrantsChanged("demo", session.Grants{Scopes: []string{"marketdata:read"}, Rights: entitlement.Set{{Market: "BYMA", Trades: true}}})
	case 6:
		d.sess.Handle(d.now, session.Event{Kind: session.Binary, Message: []byte{1}})
	case 7:
		r.Revoke("f1")
	case 8:
		r.Drain(time.Second)
	case 9:
		d.sess.Handle(d.now, session.Event{Kind: session.TooBig})
	default:
		d.sess.Handle(d.now, session.Event{Kind: session.EventKind(what), Expires: d.now, Grants: &session.Grants{}})
	}
}
