package check

import (
	"encoding/json"
	"reflect"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// difference is how a schema differs from the one that is known.
type difference struct {
	missing, added, changed []string
}

// compare compares two schemas field by field. Descriptions do not count. Of a field that only one has, those below it are not named.
func compare(ours, theirs *apiextensionsv1.CustomResourceValidation) difference {
	var d difference
	a, b := fieldsOf(ours), fieldsOf(theirs)
	for path, field := range a {
		other, ok := b[path]
		switch _, parent := b[field.parent]; {
		case !ok && parent:
			d.missing = append(d.missing, path)
		case ok && !sameRules(field.schema, other.schema):
			d.changed = append(d.changed, path)
		}
	}
	for path, field := range b {
		if _, ok := a[path]; !ok {
			if _, parent := a[field.parent]; parent {
				d.added = append(d.added, path)
			}
		}
	}
	return d
}

// field is one field of a schema.
type field struct {
	parent string
	schema *apiextensionsv1.JSONSchemaProps
}

// fieldsOf returns the fields of a schema by their paths, such as spec.tasks[].name. The root has an empty path.
func fieldsOf(v *apiextensionsv1.CustomResourceValidation) map[string]field {
	out := map[string]field{}
	if v != nil {
		collect(out, "", "", v.OpenAPIV3Schema)
	}
	return out
}

func collect(out map[string]field, parent, path string, s *apiextensionsv1.JSONSchemaProps) {
	if s == nil {
		return
	}
	out[path] = field{parent, s}
	for name := range s.Properties {
		child := s.Properties[name]
		below := name
		if path != "" {
			below = path + "." + name
		}
		collect(out, path, below, &child)
	}
	if s.Items != nil {
		collect(out, path, path+"[]", s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		collect(out, path, path+"{}", s.AdditionalProperties.Schema)
	}
}

// sameRules reports whether two fields are validated and defaulted alike. What is below them is not looked at.
func sameRules(a, b *apiextensionsv1.JSONSchemaProps) bool {
	return reflect.DeepEqual(rulesOf(a), rulesOf(b))
}

func rulesOf(s *apiextensionsv1.JSONSchemaProps) any {
	flat := *s
	flat.Description, flat.Properties, flat.Items, flat.AdditionalProperties = "", nil, nil, nil
	raw, err := json.Marshal(flat)
	if err != nil {
		return err.Error() // only a default that is no JSON
	}
	var out any
	if err := json.Unmarshal(raw, &out); err != nil {
		return err.Error()
	}
	return out
}
