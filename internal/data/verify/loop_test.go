package verify

import (
	"fmt"
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

// TestLoopedTrades checks the ids of trades of a recording that is played repeatedly. The status
// that announces a restart may come before the last trade of a round or after the first one of the
// next.
func TestLoopedTrades(t *testing.T) {
	trade := func(n, at, id int) string {
		return message("T", n, at, fmt.Sprintf(`"P":10,"Z":1,"X":"%d"`, id))
	}
	gap := message("H", 2, 1, `"E":"gap","Y":"replay_restarted"`)
	for _, tc := range []struct {
		name string
		list []string
		want uint64
	}{
		{"in order", []string{trade(1, 1, 1), trade(2, 3, 2), gap, trade(3, 1, 1), trade(4, 3, 2)}, 0},
		{"last trade late", []string{trade(1, 1, 1), trade(2, 2, 2), gap, trade(3, 3, 3), trade(4, 1, 1), trade(5, 2, 2), trade(6, 3, 3)}, 0},
		{"two trades late", []string{trade(1, 1, 1), gap, trade(2, 2, 2), trade(3, 3, 3), trade(4, 1, 1), trade(5, 3, 3)}, 0},
		{"first trade early", []string{trade(1, 1, 1), trade(2, 3, 2), trade(3, 1, 1), gap, trade(4, 3, 2)}, 0},
		{"status ahead at the beginning", []string{message("H", 4, 1, `"R":true,"E":"open"`), trade(1, 2, 2), trade(2, 3, 3), trade(3, 1, 1), trade(4, 2, 2), trade(5, 3, 3)}, 0},
		{"an id twice in a round", []string{trade(1, 1, 1), trade(2, 3, 2), gap, trade(3, 1, 1), trade(4, 3, 1)}, 1},
		{"an id twice without a restart", []string{trade(1, 1, 1), trade(2, 3, 1), message("H", 1, 3, `"E":"open"`)}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list := slices.Clone(tc.list)
			for n := len(tc.list); n < 100; n++ { // falls are findings if they are few
				list = append(list, trade(n, 10, n))
			}
			r := judge(t, list, Config{})
			if r.Result(Reference).Wrong != tc.want || r.Wrong() != tc.want {
				t.Errorf("want %d:\n%s", tc.want, text(r))
			}
		})
	}
}
