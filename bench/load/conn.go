package load

// phase is the phase of a connection.
type phase uint8

const (
	phaseClosed phase = iota
	phaseDialing
	phaseUpgrading
	phaseStepping
	phaseAwaiting // waits for the snapshots of its set
	phaseReady
)

// conn is one connection.
type conn struct {
	fd        int32
	number    int32
	recent    int32 // instrument of its last message
	snapshots int32 // expected before it is ready
	phase     phase
	step      uint8
	slow      bool   // it may read slowly and be cut off
	carry     []byte // incomplete frame
	inner     []byte // incomplete message of a protocol inside frames
	seen      []seen // by instrument and channel
}
