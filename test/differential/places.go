package main

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
)

// firstDifference returns the places at which the first decision that differs does so. Each line is a decision, as JSON.
func firstDifference(was, is []string) ([]string, error) {
	for i := range min(len(was), len(is)) {
		if was[i] == is[i] {
			continue
		}
		var a, b any
		if err := errors.Join(json.Unmarshal([]byte(was[i]), &a), json.Unmarshal([]byte(is[i]), &b)); err != nil {
			return nil, err
		}
		found := map[string]bool{}
		differ(a, b, "", found)
		return slices.Sorted(maps.Keys(found)), nil
	}
	if len(was) != len(is) {
		return []string{"the number of passes"}, nil
	}
	return nil, errors.New("the digests of its decisions differ, and the decisions do not")
}

// differ notes the places at which two values differ. Lists of another length differ as a whole.
func differ(a, b any, at string, found map[string]bool) {
	if reflect.DeepEqual(a, b) {
		return
	}
	switch a := a.(type) {
	case map[string]any:
		if b, is := b.(map[string]any); is {
			for key := range union(a, b) {
				differ(a[key], b[key], join(at, key), found)
			}
			return
		}
	case []any:
		if b, is := b.([]any); is && len(a) == len(b) {
			for i := range a {
				differ(a[i], b[i], at, found)
			}
			return
		}
	}
	found[at] = true
}

func union(a, b map[string]any) map[string]bool {
	keys := map[string]bool{}
	for key := range a {
		keys[key] = true
	}
	for key := range b {
		keys[key] = true
	}
	return keys
}

func join(at, key string) string {
	if at == "" {
		return key
	}
	return at + "." + key
}
