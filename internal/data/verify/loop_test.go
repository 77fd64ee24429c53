package verify

import (
	"slices"
	"testing"
)

// TestLoopedStream checks a recording that is played repeatedly: times may go back once in each
// channel, before the status that announces it or after, because channels are not in order.
func TestLoopedStream(t *testing.T) {
	const state = `"R":true,"DL":0,"B":[[10,1]],"A":[[11,1]]`
	first := []string{message("H", 1, 1, `"E":"open"`), message("O", 1, 2, state), message("Q", 1, 2, `"BP":10,"BZ":1,"AP":11,"AZ":1`), message("O", 2, 5, `"L":1,"A":[[12,1]]`)}
	gap := []string{message("H", 2, 1, `"E":"gap","Y":"replay_restarted"`), message("H", 3, 1, `"E":"feed_down","Y":"replay_restarted"`)}
	up := []string{message("H", 4, 0, `"E":"feed_up","Y":"snapshot"`), message("O", 3, 2, state), message("O", 4, 5, `"L":3,"A":[[12,1]]`)}
	quote := func(n, at int) string { return message("Q", n, at, `"BP":10,"BZ":1,"AP":11,"AZ":1`) }
	for _, tc := range []struct {
		name string
		list [][]string
		want uint64
	}{
		{"in order", [][]string{first, gap, up, {quote(2, 2), quote(3, 4)}}, 0},
		{"quotes ahead", [][]string{first, {quote(2, 1)}, gap, up, {quote(3, 2)}}, 0},
		{"quotes late", [][]string{first, gap, {quote(2, 4)}, up, {quote(3, 1)}}, 0},
		{"quotes much later", [][]string{first, gap, up, silence(5), {quote(2, 1)}, silence(5), {quote(3, 2)}}, 0},
		{"without a restart", [][]string{first, {quote(2, 1)}}, 1},
		{"long before the restart", [][]string{first, {quote(2, 1)}, silence(5), gap, up}, 1},
		{"twice before it", [][]string{first, {quote(2, 1), quote(3, 0)}, gap, up}, 1},
		{"before and after it", [][]string{first, {quote(2, 1)}, gap, up, {quote(3, 0)}}, 1},
		{"twice after it", [][]string{first, gap, up, {quote(2, 1), quote(3, 2), quote(4, 1)}}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := judge(t, append(slices.Concat(tc.list...), silence(5)...), Config{})
			if r.Result(Time).Wrong != tc.want || r.Wrong() != tc.want {
				t.Errorf("want %d:\n%s", tc.want, text(r))
			}
		})
	}
}
