package conformance

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/internal/base/frame"
)

// once returns an edit that changes only the first frame that edit changes.
func once(edit func([]byte) ([]byte, bool)) func([]byte) []byte {
	done := false
	return func(b []byte) []byte {
		if !done {
			b, done = edit(b)
		}
		return b
	}
}

// damageChecksum changes a size of an update of the first instrument's book, so that its checksum
// is wrong.
func damageChecksum(whole []byte) ([]byte, bool) {
	first, payload, size := frame.Split(whole)
	message := bytes.Index(payload, []byte(`{"type":"O","S":"`+strings.Split(instruments[0], "|")[0]+`"`))
	if first != frame.Text || message < 0 {
		return whole, false
	}
	end := bytes.IndexByte(payload[message:], '}')
	checksum := bytes.LastIndex(payload[message:message+end], []byte(`"K":`))
	if checksum < 0 || bytes.Contains(payload[message:message+end], []byte(`"R":true`)) {
		return whole, false
	}
	digit := size - len(payload) + message + end - 1
	changed := bytes.Clone(whole)
	changed[digit] = '0' + (changed[digit]-'0'+1)%10
	return changed, true
}

// addUnknown adds a message of an unknown type before each frame, and an unknown member to each
// message.
func addUnknown(whole []byte) []byte {
	first, payload, _ := frame.Split(whole)
	if first != frame.Text || !bytes.HasPrefix(payload, []byte(`{"type":"`)) {
		return whole
	}
	news := `{"type":"News","S":"ALFA","N":1,"headline":"unknown"}`
	b := append(frame.AppendHead(nil, frame.Text, len(news)), news...)
	const member = `,"unknown":{"a":[1,{"b":null}]}}`
	payload = append(bytes.Clone(payload[:len(payload)-1]), member...)
	return append(frame.AppendHead(b, frame.Text, len(payload)), payload...)
}

// takeOver connects with the session name of the client, and stays connected for a moment.
func (w *world) takeOver(ctx context.Context) error {
	token, err := w.tokenOf(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(w.rest, "http")+"/stream", nil)
	if err != nil {
		return err
	}
	defer func() { _ = ws.CloseNow() }()
	message := fmt.Sprintf(`{"action":"auth_token","token":%q,"session":"conformance"}`, token)
	if err := ws.Write(ctx, websocket.MessageText, []byte(message)); err != nil {
		return err
	}
	if _, _, err := ws.Read(ctx); err != nil {
		return err
	}
	return w.program.exits(patience)
}
