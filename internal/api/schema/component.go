package schema

import (
	"slices"
	"strings"
)

// Named is a component of a document: a schema that other schemas refer to by its name.
type Named struct {
	Name   string
	Schema *Schema
}

// References returns the sorted names of the components that value refers to directly. References
// inside those components are not followed.
func References(value any) []string {
	var names []string
	collect(value, &names)
	slices.Sort(names)
	return slices.Compact(names)
}

func collect(value any, names *[]string) {
	switch v := value.(type) {
	case *Schema:
		collect(v.keywords, names)
	case Map:
		for _, m := range v {
			if text, ok := m.Value.(string); ok && m.Name == "$ref" {
				if name, ok := strings.CutPrefix(text, prefix); ok {
					*names = append(*names, name)
				}
				continue
			}
			collect(m.Value, names)
		}
	case []*Schema:
		for _, s := range v {
			collect(s, names)
		}
	case []Map:
		for _, m := range v {
			collect(m, names)
		}
	case []any:
		for _, item := range v {
			collect(item, names)
		}
	}
}

// Reachable returns the components in all that value refers to, directly or through other
// components, in the order of all. missing lists names that value refers to and all does not
// contain.
func Reachable(all []Named, value any) (used []Named, missing []string) {
	wanted := map[string]bool{}
	open := References(value)
	for len(open) > 0 {
		name := open[0]
		open = open[1:]
		if wanted[name] {
			continue
		}
		wanted[name] = true
		i := slices.IndexFunc(all, func(n Named) bool { return n.Name == name })
		if i < 0 {
			missing = append(missing, name)
			continue
		}
		open = append(open, References(all[i].Schema)...)
	}
	for _, n := range all {
		if wanted[n.Name] {
			used = append(used, n)
		}
	}
	return used, missing
}

// Components returns the object "schemas" of a document: the schemas by name.
func Components(list []Named) Map {
	m := Map{}
	for _, n := range list {
		m = m.With(n.Name, n.Schema)
	}
	return m
}
