package session

import (
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/wire"
)

// acknowledge sends ack, after messages that the stream has already collected. It first sets the
// position of the stream and the counts of the channels in ack. An acknowledgement with many lost
// ranges becomes several messages.
func (s *Session) acknowledge(ack *wire.Subscription) {
	if ack.Epoch == "" {
		ack.Epoch, ack.Position = s.sub.Position()
	}
	for c := range wire.NumChannels {
		if ack.Given[c] {
			ack.Count[c] = s.sub.Count(c)
		}
	}
	// Messages that the stream has collected are from before the change of the set.
	o := s.ext()
	if s.format == wire.JSON && o.sim == nil {
		o.control = s.sub.TakeCarry(o.control)
	} else {
		o.control = s.sub.Transcode(o.control, o.sim.corrupt(s.sub.TakeCarry(nil)), s.format)
	}
	more := subscription.SplitLost(ack)
	s.send(wire.AppendSubscription(s.sub.Scratch(), ack))
	for i := range more {
		s.send(wire.AppendSubscription(s.sub.Scratch(), &more[i]))
	}
}

// identifier returns an identifier as the server writes it. An identifier of bars ends with the
// interval.
func identifier(x hub.Item) string { return string(x.Channel.Append(nil, x.ID)) }

func identifiers(items []hub.Item) []string {
	list := make([]string, len(items))
	for i := range items {
		list[i] = identifier(items[i])
	}
	return list
}

func ranges(lost map[string]subscription.Lost) map[string]wire.Range {
	if len(lost) == 0 {
		return nil
	}
	all := make(map[string]wire.Range, len(lost))
	for name, l := range lost {
		all[name] = wire.Range(l)
	}
	return all
}
