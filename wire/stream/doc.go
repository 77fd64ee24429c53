// Package stream decodes the messages that a gateway sends on its stream. It is the counterpart of
// the encoders of package wire, for clients:
//
//	var d stream.Decoder
//	var m stream.Message
//	for {
//		err := d.Decode(frame, &m)
//		...
//		switch m.Kind {
//		case stream.Trade:
//			fmt.Println(m.ID, m.N, m.Trade.Price, m.Trade.Size)
//		}
//	}
//
// A Decoder is tolerant where the protocol promises additions: it ignores unknown members, and a
// message of an unknown type has the kind Unknown. It is strict otherwise: texts that are not JSON,
// numbers that are not exact and data messages without an instrument or a number are errors.
//
// All functions depend on their arguments alone: no goroutines, no clock, no I/O.
package stream
