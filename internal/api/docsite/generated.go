package docsite

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/ruedahq/rueda/docs"
	"github.com/ruedahq/rueda/internal/base/metrics"
	"github.com/ruedahq/rueda/internal/engine/session/testdata"
)

// generatedPart matches a comment in a document that the gateway replaces with generated text: the
// metrics, the conversations whose names match some patterns, or a list of test vectors.
var generatedPart = regexp.MustCompile(`(?m)^<!-- (metrics|conversations|vectors)((?: [a-z*-]+)*) -->$`)

// withGeneratedParts returns the document with its generatedPart comments replaced.
func withGeneratedParts(document []byte) []byte {
	return generatedPart.ReplaceAllFunc(document, func(mark []byte) []byte {
		m := generatedPart.FindSubmatch(mark)
		names := strings.Fields(string(m[2]))
		switch string(m[1]) {
		case "metrics":
			return []byte(metrics.Tables())
		case "vectors":
			return []byte(vectors(names[0]))
		default:
			return []byte(conversations(names))
		}
	})
}

// vectors returns the test vectors of one list in docs/test-vectors.json as a block of Markdown,
// one vector per line.
func vectors(list string) string {
	file, _ := fs.ReadFile(docs.Files(), "test-vectors.json") // is embedded
	_, lines, _ := strings.Cut(string(file), "\""+list+"\": [\n")
	lines, _, _ = strings.Cut(lines, "\n]")
	return "```json\n" + strings.ReplaceAll(lines, "},\n", "}\n") + "\n```\n"
}

// conversations returns the conversations whose names match at least one pattern, as Markdown. Each
// has the rule that it shows, its name and its lines.
func conversations(patterns []string) string {
	var names []string
	for _, p := range patterns {
		list, _ := fs.Glob(testdata.Conversations, p+".talk") // the patterns are those of documents
		names = append(names, list...)
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range slices.Compact(names) {
		text, _ := fs.ReadFile(testdata.Conversations, name) // is embedded
		rule, lines, _ := strings.Cut(string(text), "\n")
		b.WriteString("\n" + strings.TrimPrefix(rule, "# ") + " (`" + strings.TrimSuffix(path.Base(name), ".talk") + "`)\n\n```text\n" + strings.TrimRight(lines, "\n") + "\n```\n")
	}
	return b.String()
}
