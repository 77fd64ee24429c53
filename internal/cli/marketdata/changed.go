package marketdata

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/cli/command"
	"github.com/ruedahq/rueda/wire"
)

// changed prints which subscriptions the server removed or moved to another delay. If none is left,
// it returns an error: no message would follow.
func (l *link) changed(v *wire.Value) error {
	for _, c := range l.want.channels {
		if list := v.Get(c); list.Kind != wire.Absent {
			l.has[c] = len(list.Items) > 0
		}
	}
	why := strings.ToLower(text(v, "msg"))
	moved := v.Get("moved")
	for i := range moved.Items {
		m := &moved.Items[i]
		seconds, _ := strconv.Atoi(text(m, "delay"))
		at := "now at once"
		if seconds > 0 {
			at = fmt.Sprintf("now %v late", time.Duration(seconds)*time.Second)
		}
		l.printf("%s %s %s (%s)", text(m, "channel"), text(m, "instrument"), at, why)
	}
	removed := v.Get("removed")
	status := command.ExitNotFound
	for i := range removed.Items {
		r := &removed.Items[i]
		reason := wire.Reason(text(r, "reason"))
		said := string(reason) // one that this version does not know
		if e := reason.Socket(); e.Code > 0 {
			said = strings.ToLower(e.Msg[:1]) + e.Msg[1:]
		}
		if reason != wire.UnknownInstrument {
			status = command.ExitRefused
		}
		l.printf("%s %s removed: %s (%s)", text(r, "channel"), text(r, "instrument"), said, why)
	}
	if len(removed.Items) == 0 || l.waiting > 0 {
		return nil
	}
	for _, c := range l.want.channels {
		if l.has[c] {
			return nil
		}
	}
	return command.Fail(status, errors.New("no subscription is left"), "")
}
