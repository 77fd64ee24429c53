package copying

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// liar is a node that answers requests as it likes.
type liar func(r Request, send func(part string) error) error

func (l liar) ask(_ context.Context, _ string, request []byte, f func([]byte) error) error {
	var r Request
	if err := json.Unmarshal(request, &r); err != nil {
		return err
	}
	return l(r, func(part string) error { return f([]byte(part)) })
}

// TestEndlessAnswers checks that a node whose answers do not end, or state impossible sizes, is
// left, and that it fills neither the memory nor the disk of the new node.
func TestEndlessAnswers(t *testing.T) {
	t.Parallel()
	const most = 3 << 20 // parts; no answer of a node has as many
	endless := func(send func(string) error, part func(int) string) error {
		for i := range most {
			if err := send(part(i)); err != nil {
				return err
			}
		}
		return errors.New("all parts were taken")
	}
	file := func(size string) string { return `{"Name":"2025-11-21/00000001.segz","Size":` + size + `}` }
	many := strings.TrimSuffix(strings.Repeat(file("1")+",", filesPerPart), ",")
	list := func(files string) string { return `c{"Files":[` + files + `]}` }
	tests := map[string]liar{
		"files": func(_ Request, send func(string) error) error {
			return endless(send, func(int) string { return list(many) })
		},
		"sizes that exceed an integer together": func(_ Request, send func(string) error) error {
			return send(list(file("9223372036854775807") + "," + file("9223372036854775807")))
		},
		"a file in parts": func(r Request, send func(string) error) error {
			if r.Op == OpList {
				return send(list(file("1000")))
			}
			return endless(send, func(int) string { return "c" + strings.Repeat("x", 600) })
		},
	}
	for name, node := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &Copier{Journal: filepath.Join(t.TempDir(), "journal"), Ask: node.ask}
			err := c.Copy(t.Context(), &Offer{Node: "liar"}, nil)
			if e := (*PeerError)(nil); !errors.As(err, &e) || !errors.Is(err, errPart) {
				t.Errorf("%v", err)
			}
			bytes := int64(0)
			err = filepath.WalkDir(c.folder(), func(_ string, e fs.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return err
				}
				info, err := e.Info()
				if err == nil {
					bytes += info.Size()
				}
				return err
			})
			if err != nil || bytes > 2000 {
				t.Errorf("the copy has %d bytes, %v", bytes, err)
			}
		})
	}
}

// TestForgedOffers checks that an offer with a name that is not that of a node is ignored, because
// the name becomes part of a subject, and one of too many days.
func TestForgedOffers(t *testing.T) {
	t.Parallel()
	longName, days := strings.Repeat("x", 33), strings.Repeat(`{"Date":"2026-11-20"},`, maxDays)+`{"Date":"2026-11-20"}`
	for text, want := range map[string]bool{
		`{"Node":"edge-1","Epoch":"e1"}`:     true,
		`{"Node":""}`:                        false,
		`{"Node":">"}`:                       false,
		`{"Node":"a b\r\nPUB rows 1\r\nx"}`:  false,
		`{"Node":"` + longName + `"}`:        false,
		`{"Node":"a","Days":[` + days + `]}`: false,

		`{"Node":"a","Days":[{"Date":"2026-11-20"}]}`:                                   true,
		`{"Node":"a","Days":[{"Date":"../../2026-11-20"}]}`:                             false,
		`{"Node":"a","Earlier":[{"Date":"../../2026-11-20"}]}`:                          false,
		`{"Node":"a","Earlier":[{"Date":"2026-11-20"}],"Days":[{"Date":"2026-11-20"}]}`: false,
		`null`: false,
	} {
		if _, ok := ParseOffer([]byte("c" + text)); ok != want {
			t.Errorf("the offer %.60s is taken: %t", text, ok)
		}
	}
}
