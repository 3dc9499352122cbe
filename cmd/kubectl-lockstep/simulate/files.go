package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// readFile reads a file, or the standard input for -.
func readFile(in io.Reader, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(in)
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a folder: name a file in it", name)
	}
	return os.ReadFile(name)
}

// nameOf is how errors call a file.
func nameOf(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// newDocument is a line that begins a document of a YAML file.
var newDocument = regexp.MustCompile(`^---(\s|$)`)

// documents are those of a YAML file, as JSON. Empty ones are left out. An error names the line of the file.
func documents(raw []byte) ([][]byte, error) {
	var all [][]byte
	lines, doc := 0, []byte{}
	for line := range bytes.Lines(raw) {
		if newDocument.Match(line) {
			all = append(all, doc)
			doc = bytes.Repeat([]byte("\n"), lines) // so that its lines count from the beginning of the file
		}
		doc = append(doc, line...)
		lines++
	}
	var out [][]byte
	for _, doc := range append(all, doc) {
		asJSON, err := yaml.YAMLToJSONStrict(doc)
		if err != nil {
			return nil, yamlError(err)
		}
		if string(asJSON) != "null" {
			out = append(out, asJSON)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("the file is empty")
	}
	return out, nil
}

// yamlError is an error of the parser without what only its authors understand.
func yamlError(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	text = strings.TrimPrefix(text, "unmarshal errors:")
	return fmt.Errorf("the YAML is broken: %s", strings.Join(strings.Fields(text), " "))
}

// object is an object of Kubernetes.
type object map[string]any

func (o object) text(field string) string {
	text, _ := o[field].(string)
	return text
}

// String is the kind of an object, and its name where it has one.
func (o object) String() string {
	metadata, _ := o["metadata"].(map[string]any)
	if name, ok := metadata["name"].(string); ok {
		return o.text("kind") + " " + name
	}
	return o.text("kind")
}

// objects are those of a file, and of the lists in it, as kubectl get -o yaml prints them.
func objects(raw []byte) ([]object, error) {
	docs, err := documents(raw)
	if err != nil {
		return nil, err
	}
	var out []object
	for _, doc := range docs {
		var o object
		if err := utiljson.Unmarshal(doc, &o); err != nil || o.text("kind") == "" || o.text("apiVersion") == "" {
			return nil, errors.New("it has something that is no object of Kubernetes: give it apiVersion and kind")
		}
		items, isList := o["items"].([]any)
		if !isList || !strings.HasSuffix(o.text("kind"), "List") {
			out = append(out, o)
			continue
		}
		for _, item := range items {
			if one, ok := item.(map[string]any); ok {
				out = append(out, one)
			}
		}
	}
	return out, nil
}

// as decodes an object, and ignores fields that are not known.
func (o object) as(into any) error {
	raw, err := utiljson.Marshal(o)
	if err != nil {
		return fmt.Errorf("%s: %w", o, err)
	}
	if _, err := decode(raw, into); err != nil {
		return fmt.Errorf("%s: %w", o, err)
	}
	return nil
}

// decode decodes JSON, and returns the paths of the fields that are not known.
func decode(raw []byte, into any) (unknown []string, err error) {
	strict, err := kjson.UnmarshalStrict(raw, into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := wrong.Field
		if field == "" {
			field = "the document"
		}
		return nil, fmt.Errorf("%s is %s, and has to be %s", field, jsonKind(wrong.Value), goKind(wrong.Type))
	}
	for _, err := range strict {
		if field, ok := errors.AsType[kjson.FieldError](err); ok {
			unknown = append(unknown, field.FieldPath())
		}
	}
	return unknown, err
}

// jsonKind names the kind of a value as encoding/json does, such as string, or number 1.5.
func jsonKind(value string) string {
	switch value {
	case "array":
		return "a list"
	case "object":
		return "a map"
	case "bool":
		return "true or false"
	}
	return "a " + value
}

// goKind names what a field of a type has to be.
func goKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string: put it into quotes"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "a list"
	}
	return "a map"
}

// unknownFields refuses fields that are not known.
func unknownFields(paths []string) []error {
	var errs []error
	for _, path := range paths {
		errs = append(errs, fmt.Errorf("unknown field %q: correct its name, or leave it out", path))
	}
	return errs
}

// listed is one error, or several with a line for each; nil for none.
func listed(errs []error) error {
	if len(errs) < 2 {
		return errors.Join(errs...)
	}
	return fmt.Errorf("%d mistakes:\n- %s", len(errs), strings.ReplaceAll(errors.Join(errs...).Error(), "\n", "\n- "))
}

// hasKind reports whether a document is an object of Kubernetes, or is meant to be one.
func hasKind(doc []byte) bool {
	var o object
	return utiljson.Unmarshal(doc, &o) == nil && (o.text("kind") != "" || o.text("apiVersion") != "")
}
