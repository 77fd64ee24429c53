package host

import (
	"reflect"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/bench/pattern"
	"github.com/ruedahq/rueda/bench/proc"
)

// TestVersion checks which serving programs are accepted.
func TestVersion(t *testing.T) {
	for stated, want := range map[int]string{
		0: "", // older than the field
		1: "",
		2: "has version 2 of the protocol of measurements, this program has version 1",
		9: "has version 9 of the protocol of measurements, this program has version 1",
	} {
		err := (&Started{Version: stated}).Check()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("version %d: %v", stated, err)
		}
	}
}

// TestProtocolHasVersion checks that the fields of the protocol are those of its version. Programs
// of other commits ignore fields that they do not know, and would measure something else.
func TestProtocolHasVersion(t *testing.T) {
	var fields strings.Builder
	for _, v := range []any{Config{}, Started{}, Memory{}, Stats{}, Scrapes{}, pattern.Pattern{}, pattern.Published{}, proc.Board{}} {
		typ := reflect.TypeOf(v)
		fields.WriteString(typ.String() + ":")
		for f := range typ.Fields() {
			fields.WriteString(" " + f.Name + " " + f.Type.String())
		}
		fields.WriteString("\n")
	}
	const version1 = `host.Config: Instruments int Market bool Board string Conns int PerUser int Flush time.Duration Ping time.Duration PongTimeout time.Duration MaxWaiting int MaxAge time.Duration MaxBacklog int PerTurn int TradesKept int Procs int Certificate string Key string IOUring bool Journal bool Delays []time.Duration Folder string TLSByGoroutines bool
host.Started: Address string REST string Limits string Version int
host.Memory: Resident int64 Peak int64 Heap uint64 Goroutines int Mallocs uint64
host.Stats: Resident int64 Goroutines int Mallocs uint64 Gateway gateway.Stats
host.Scrapes: CPU float64 Bytes int
pattern.Pattern: Kind string Batch int Ahead int Window int Rate float64 Spread int Quotes bool InStep bool Fanout int Readers map[string]int
pattern.Published: Last map[string]uint32 Events uint64 Batches uint64 Seconds float64
proc.Board: Received atomic.Uint64 Trades atomic.Uint64 Through atomic.Uint64
`
	if Version != 1 || fields.String() != version1 {
		t.Errorf("raise Version when a field changes. The fields of version %d are\n%s", Version, fields.String())
	}
}
