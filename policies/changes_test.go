// What a decision changes, leaf by leaf, so that a test compares all of it.

package policies

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// changes decides, and tells every leaf of the status that is another one afterwards. Times
// are told since the scene began; messages, conditions and
// the next step have tests of their own.
func (s *scene) changes() []string {
	before := leaves(s.status())
	s.decide()
	after := leaves(s.status())
	var out []string
	for path, value := range after {
		if before[path] != value {
			out = append(out, path+": "+value)
		}
	}
	for path := range before {
		if _, ok := after[path]; !ok {
			out = append(out, gone(path, after)+" is gone")
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// gone is the highest part of a path that is not there any more.
func gone(path string, after map[string]string) string {
	words := strings.Split(path, ".")
	for i := range words {
		part := strings.Join(words[:i+1], ".")
		if !slices.ContainsFunc(slices.Collect(maps.Keys(after)), func(p string) bool {
			return p == part || strings.HasPrefix(p, part+".") || strings.HasPrefix(p, part+"[")
		}) {
			return part
		}
	}
	return path
}

// leaves are the leaves of a status, by path.
func leaves(s *v1alpha1.TrainingJobStatus) map[string]string {
	s = s.DeepCopy()
	for i := range s.Tasks {
		s.Tasks[i].Ranks = singly(s.Tasks[i].Ranks)
	}
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(raw, &tree); err != nil {
		panic(err)
	}
	delete(tree, "conditions")
	delete(tree, "nextStep")
	out := map[string]string{}
	walk(out, "", tree)
	return out
}

// singly has a set for each rank.
func singly(sets []v1alpha1.RankStatus) (out []v1alpha1.RankStatus) {
	for _, set := range sets {
		gang.RestartedRanks(&set).Each(func(index int32) {
			out = append(out, v1alpha1.RankStatus{Index: index, Incarnation: set.Incarnation, Reason: set.Reason})
		})
	}
	return out
}

// small are the lists whose elements are told in one line.
var small = []string{"excludedNodes", "holds", "leftHyperNodes", "lostTime", "nodes", "partitions", "pods", "ranks", "steps", "chargedTimes"}

func walk(out map[string]string, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			if key != "message" {
				walk(out, strings.TrimPrefix(path+"."+key, "."), child)
			}
		}
	case []any:
		name := path[strings.LastIndex(path, ".")+1:]
		for i, child := range v {
			at := fmt.Sprintf("%s[%s]", path, keyOf(i, child))
			if slices.Contains(small, name) {
				out[at] = line(child)
			} else {
				walk(out, at, child)
			}
		}
	default:
		out[path] = line(v)
	}
}

// line tells a value in one line.
func line(value any) string {
	switch v := value.(type) {
	case map[string]any:
		var words []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if key != "name" && key != "node" && key != "cause" && key != "index" || key == "index" && v["action"] != nil {
				words = append(words, key+" "+line(v[key]))
			}
		}
		return strings.Join(words, ", ")
	case string:
		if at, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return at.Truncate(time.Second).Sub(sceneStart.Truncate(time.Second)).String()
		}
	}
	return fmt.Sprint(value)
}

// keyOf is how a list knows an element.
func keyOf(i int, element any) string {
	if object, ok := element.(map[string]any); ok {
		for _, key := range []string{"id", "name", "node", "cause", "index"} {
			if v, ok := object[key]; ok && object["action"] == nil {
				return fmt.Sprint(v)
			}
		}
	}
	return fmt.Sprint(i)
}

func sorted(lines []string) []string { return slices.Sorted(slices.Values(lines)) }
