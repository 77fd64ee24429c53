package market

import (
	"reflect"
	"testing"
)

// TestTradeDetails checks every method with values of every field. A new field needs a value here.
func TestTradeDetails(t *testing.T) {
	for _, d := range []TradeDetails{{}, {Conditions: []string{"odd_lot"}}, {Conditions: []string{"", "a", "cross"}}} {
		b := d.AppendBinary([]byte("before"))
		if n := len(b) - len("before"); n > d.MaxBinary() {
			t.Errorf("%+v: %d bytes, want at most %d", d, n, d.MaxBinary())
		}
		got := TradeDetails{Conditions: []string{"old"}}
		if rest := got.ReadBinary(append(b[len("before"):], "after"...)); string(rest) != "after" || !reflect.DeepEqual(got, d) {
			t.Errorf("read %+v and %q, want %+v and after", got, rest, d)
		}
		if d.IsZero() != reflect.DeepEqual(d, TradeDetails{}) {
			t.Errorf("%+v: IsZero is %v", d, d.IsZero())
		}
		c := d.Clone()
		if !reflect.DeepEqual(c, d) {
			t.Errorf("the clone of %+v is %+v", d, c)
		}
		if len(c.Conditions) > 0 {
			c.Conditions[0] = "changed"
			if d.Conditions[0] == "changed" {
				t.Error("the clone shares memory")
			}
		}
	}
	full := reflect.ValueOf(TradeDetails{Conditions: []string{"odd_lot"}})
	for i := range full.NumField() {
		if full.Field(i).IsZero() {
			t.Errorf("this test has no value of field %s", full.Type().Field(i).Name)
		}
	}
}
