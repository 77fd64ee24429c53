package facts

import "slices"

// Fact is a figure that has a range for each class of the simulated exchange.
type Fact struct {
	Name string
	Of   func(*Row) Figure
}

// Ranged returns the facts that have ranges, in the order of Ranges.
func Ranged() []Fact {
	var list []Fact
	for _, f := range factList() {
		if f.ranged {
			list = append(list, Fact{f.name, f.of})
		}
	}
	return list
}

// Ranges returns the ranges [low, high] of a class of the simulated exchange, for a whole day. The
// figures of a part of a day are mostly within them too. The ranges are in the order of
// docs/simulator.md. Ranges returns nil for any other class.
func Ranges(class string) [][2]float64 {
	var own, signs, last [][2]float64
	switch class {
	case "leading":
		own = [][2]float64{{3, 15}, {2, 8}, {6, 16}, {10, 30}, {5, 15}, {12, 25}, {18, 40}, {.02, .05}}
		signs = [][2]float64{{.35, .7}, {.25, .6}, {.1, .4}, {.05, .35}, {.02, .25}}
		last = [][2]float64{{2, 12}, {2_000, 12_000}}
	case "sovereign":
		own = [][2]float64{{3, 15}, {1, 2}, {2, 6}, {4, 14}, {.8, 3}, {2.5, 7}, {5, 14}, {.008, .022}}
		signs = [][2]float64{{.35, .7}, {.25, .6}, {.1, .4}, {.05, .35}, {.02, .25}}
		last = [][2]float64{{2, 15}, {3_000, 25_000}}
	case "general":
		own = [][2]float64{{6, 30}, {1, 8}, {6, 15}, {12, 35}, {9, 22}, {16, 35}, {22, 55}, {.015, .04}}
		signs = [][2]float64{{.05, .5}, {0, .4}, {-.05, .3}, {-.05, .25}, {-.1, .2}}
		last = [][2]float64{{1.2, 8}, {200, 1_500}}
	case "cedear":
		own = [][2]float64{{5, 30}, {4, 14}, {8, 28}, {16, 60}, {6, 22}, {10, 30}, {15, 45}, {.013, .035}}
		signs = [][2]float64{{.1, .6}, {0, .5}, {-.05, .3}, {-.05, .25}, {-.1, .2}}
		last = [][2]float64{{1.2, 8}, {300, 4_000}}
	case "illiquid":
		own = [][2]float64{{12, 45}, {3, 10}, {10, 26}, {16, 65}, {5, 20}, {14, 38}, {25, 60}, {.012, .035}}
		signs = [][2]float64{{-.05, .3}, {-.1, .3}, {-.1, .3}, {-.1, .3}, {-.1, .3}}
		last = [][2]float64{{1, 6}, {100, 600}}
	default:
		return nil
	}
	returns := [][2]float64{
		{3.5, 25}, {-.15, .15}, // of minutes: kurtosis, autocorrelation
		{10, 50}, {.8, 1.2}, {-.05, .05}, // kurtosis of seconds, variance ratio, autocorrelation of 10 s
		{.3, .9}, {0, .9}, {.05, .6}, // volume with return, each with the minute before
		{-.4, -.1}, {0, .5}, // trade prices, silent moves
	}
	return slices.Concat(own, returns, signs, last)
}

// simulated returns the classes of the simulated exchange, in the order of docs/simulator.md.
func simulated() []string {
	return []string{"leading", "sovereign", "general", "cedear", "illiquid", "lively"}
}
