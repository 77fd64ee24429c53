package facts

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

// Ranges returns the ranges [low, high] of a class of the simulated exchange, for any part of a day
// of at least an hour. They are in the order of docs/simulator.md. Ranges returns nil for any other
// class.
func Ranges(class string) [][2]float64 {
	switch class {
	case "leading":
		return [][2]float64{
			{3, 15}, {1, 2}, {2, 5}, {3, 12}, {.5, 3}, {1.5, 8}, {4, 15}, {.02, .05}, {5, 60}, {-.15, .25},
			{.5, .8}, {.35, .65}, {.22, .5}, {.12, .35}, {.05, .25}, {3, 12}, {5_000, 40_000},
		}
	case "sovereign":
		return [][2]float64{
			{3, 15}, {1, 2}, {1, 4}, {2, 8}, {.5, 2}, {1, 4}, {2, 8}, {.008, .02}, {4, 60}, {-.15, .25},
			{.5, .8}, {.35, .65}, {.22, .5}, {.12, .35}, {.05, .25}, {3, 15}, {5_000, 40_000},
		}
	case "general":
		return [][2]float64{
			{5, 30}, {1, 3}, {2, 12}, {6, 40}, {1, 8}, {6, 20}, {18, 50}, {.015, .04}, {5, 60}, {-.15, .3},
			{.45, .75}, {.3, .6}, {.15, .45}, {.05, .35}, {0, .25}, {3, 15}, {300, 4_000},
		}
	case "cedear":
		return [][2]float64{
			{8, 40}, {1, 3}, {2, 8}, {6, 25}, {.7, 4}, {2.5, 10}, {8, 25}, {.013, .035}, {5, 60}, {-.15, .3},
			{.4, .7}, {.25, .55}, {.12, .4}, {.04, .3}, {0, .25}, {3, 15}, {500, 4_000},
		}
	case "illiquid":
		return [][2]float64{
			{8, 40}, {1, 8}, {6, 30}, {25, 90}, {2, 15}, {14, 45}, {40, 90}, {.012, .035}, {8, 80}, {-.15, .3},
			{.4, .75}, {.25, .6}, {.1, .45}, {0, .35}, {-.1, .3}, {2.5, 12}, {50, 800},
		}
	}
	return nil
}

// simulated returns the classes of the simulated exchange, in the order of docs/simulator.md.
func simulated() []string {
	return []string{"leading", "sovereign", "general", "cedear", "illiquid", "lively"}
}
