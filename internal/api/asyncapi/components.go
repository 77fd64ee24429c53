package asyncapi

import "github.com/ruedahq/rueda/internal/api/schema"

// Components returns the schemas of the messages and values of the stream, in the order of the
// document. The schemas are in JSON Schema 2020-12, which OpenAPI needs. The document itself uses
// draft 07, as AsyncAPI prescribes.
func Components() (list []schema.Named) {
	root, _ := schema.Decode(document) // which is embedded
	components, _ := root.Get("components").(schema.Map)
	schemas, _ := components.Get("schemas").(schema.Map)
	for _, m := range schemas {
		list = append(list, schema.Named{Name: m.Name, Schema: newSchema(m.Value)})
	}
	return list
}

// newSchema converts a schema of the document from draft 07 to 2020-12.
func newSchema(object any) *schema.Schema {
	keywords, _ := object.(schema.Map)
	out := schema.Map{}
	for _, k := range keywords {
		name, value := k.Name, k.Value
		switch v := value.(type) {
		case schema.Map:
			switch name {
			case "properties":
				properties := schema.Map{}
				for _, p := range v {
					properties = properties.With(p.Name, newSchema(p.Value))
				}
				value = properties
			case "items", "additionalProperties", "not":
				value = newSchema(v)
			}
		case []any:
			switch name {
			case "required":
				value = texts(v)
			case "anyOf", "oneOf":
				value = newSchemas(v)
			case "allOf": // of a reference, which has no other keyword next to it in draft 07
				reference, _ := v[0].(schema.Map)
				name, value = "$ref", reference.Get("$ref")
			case "items": // of a tuple
				out = out.With("prefixItems", newSchemas(v))
				value = schema.FromKeywords(schema.Map{}.With("type", "number"))
			}
		}
		out = out.With(name, value)
	}
	return schema.FromKeywords(out)
}

func newSchemas(objects []any) (list []*schema.Schema) {
	for _, o := range objects {
		list = append(list, newSchema(o))
	}
	return list
}

func texts(values []any) (list []string) {
	for _, v := range values {
		text, _ := v.(string)
		list = append(list, text)
	}
	return list
}
