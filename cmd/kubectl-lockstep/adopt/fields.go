package adopt

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"
)

// fields are those of one object, or of a part of it, that are not taken yet.
type fields struct {
	m    map[string]any
	path string
	c    *conversion
}

// fieldsOf are all fields of an object, which is left as it is. path begins the path of each.
func (c *conversion) fieldsOf(o *unstructured.Unstructured, path string) fields {
	return fields{m: mark(o.DeepCopy().Object).(map[string]any), path: path, c: c}
}

// empty is a map or a list that was empty from the start, such as `torch: {}`: its presence says something.
type empty string

// MarshalJSON implements json.Marshaler.
func (e empty) MarshalJSON() ([]byte, error) { return []byte(e), nil }

// mark replaces maps and lists that are empty, which then differ from those of which all was taken.
func mark(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			if m, ok := v[key].(map[string]any); ok && len(m) == 0 {
				v[key] = empty("{}")
				continue
			}
			v[key] = mark(v[key])
		}
	case []any:
		if len(v) == 0 {
			return empty("[]")
		}
		for i := range v {
			v[i] = mark(v[i])
		}
	}
	return value
}

// at is the path of a field.
func (f fields) at(name string) string {
	if f.path == "" || strings.HasSuffix(f.path, " ") { // the object itself
		return f.path + name
	}
	return f.path + "." + name
}

// has reports whether a field is there and not null.
func (f fields) has(name string) bool { return f.m[name] != nil }

// ignore takes fields that decide nothing.
func (f fields) ignore(names ...string) {
	for _, name := range names {
		delete(f.m, name)
	}
}

// in are the fields of an object in a field.
func (f fields) in(name string) fields {
	inner, ok := f.m[name].(map[string]any)
	if f.m[name] == empty("{}") {
		f.ignore(name)
	} else if !ok && f.has(name) {
		f.c.refuse(f.at(name), "it has to be an object")
	}
	return fields{m: inner, path: f.at(name), c: f.c}
}

// each are the fields of each object in a list.
func (f fields) each(name string) (out []fields) {
	items, ok := f.m[name].([]any)
	if f.m[name] == empty("[]") {
		f.ignore(name)
	} else if !ok && f.has(name) {
		f.c.refuse(f.at(name), "it has to be a list of objects")
	}
	for i, item := range items {
		path := fmt.Sprintf("%s[%d]", f.at(name), i)
		inner, ok := item.(map[string]any)
		if !ok {
			f.c.refuse(path, "it has to be an object")
		}
		out = append(out, fields{m: inner, path: path, c: f.c})
	}
	return out
}

// take takes a field. It is the zero value where the field is not there.
func take[T any](f fields, name string) (out T) {
	value, ok := f.m[name]
	if !ok {
		return out
	}
	delete(f.m, name)
	raw, err := json.Marshal(value)
	if err != nil {
		f.c.refuse(f.at(name), "%v", err)
		return out
	}
	unknown, err := kjson.UnmarshalStrict(raw, &out)
	if err != nil {
		f.c.refuse(f.at(name), "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	for _, u := range unknown {
		f.c.lose(f.at(name), u.Error()+", which Kubernetes does not know")
	}
	return out
}

// reportRest reports the fields that were not taken.
func (c *conversion) reportRest(f fields) {
	for _, name := range slices.Sorted(maps.Keys(f.m)) {
		c.rest(f.at(name), f.m[name])
	}
}

var index = regexp.MustCompile(`\[\d+\]`)

// plain is a path as the table of reasons has it: within spec, and without the indexes of lists. The JobSet in a runtime has the paths of a JobSet.
func plain(path string) string {
	if _, inRuntime, ok := strings.Cut(path, ": "); ok {
		path = strings.Replace(inRuntime, "spec.template.spec.", "spec.", 1)
	}
	return index.ReplaceAllString(strings.TrimPrefix(path, "spec."), "")
}

func (c *conversion) rest(path string, value any) {
	if reason := reasons[plain(path)]; reason != "" && !isTaken(value) {
		c.lose(path, reason)
		return
	}
	switch v := value.(type) {
	case nil:
	case map[string]any:
		c.reportRest(fields{m: v, path: path, c: c})
	case []any:
		for i, item := range v {
			c.rest(fmt.Sprintf("%s[%d]", path, i), item)
		}
	default:
		c.lose(path, "a TrainingJob has no such field")
	}
}

// isTaken reports whether all of a value was taken.
func isTaken(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case map[string]any:
		return !slices.ContainsFunc(slices.Collect(maps.Values(v)), func(inner any) bool { return !isTaken(inner) })
	case []any:
		return !slices.ContainsFunc(v, func(inner any) bool { return !isTaken(inner) })
	}
	return false
}
