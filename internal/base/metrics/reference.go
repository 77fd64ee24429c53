package metrics

import (
	"cmp"
	"fmt"
	"strings"
)

// Tables returns the tables of docs/metrics.md, in Markdown: one for each group of metrics.
func Tables() string {
	var b strings.Builder
	group := ""
	for _, f := range families() {
		if f.group != group {
			group = f.group
			fmt.Fprintf(&b, "\n## %s\n\n| metric | type | labels | meaning | what to do |\n|---|---|---|---|---|\n", group)
		}
		labels := "none"
		if len(f.labels) > 0 {
			labels = "`" + strings.Join(f.labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.name, f.kind, labels, f.help, cmp.Or(f.action, "nothing"))
	}
	return b.String()
}

// Names returns the names of the gateway's own metrics.
func Names() []string {
	var list []string
	for _, f := range families() {
		list = append(list, f.name)
	}
	return list
}
