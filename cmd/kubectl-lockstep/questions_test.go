package main

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// recording is a cluster that was written while tests had it in some state: see test/e2e/snapshot_test.go.
type recording struct {
	Time    time.Time
	Objects []unstructured.Unstructured
}

// recorded are the kinds of a recording.
var recorded = []metav1.APIResourceList{
	resources("v1", "Namespace", "Node", "Pod", "Event"), product,
	resources("scheduling.volcano.sh/v1beta1", "Queue", "PodGroup"), resources("topology.volcano.sh/v1alpha1", "HyperNode"),
}

// kindOf is the kind of a resource; empty for one that recordings do not have.
func kindOf(apiVersion, plural string) string {
	for _, group := range recorded {
		at := slices.IndexFunc(group.APIResources, func(r metav1.APIResource) bool { return r.Name == plural })
		if group.GroupVersion == apiVersion && at >= 0 {
			return group.APIResources[at].Kind
		}
	}
	return ""
}

func readRecording(t *testing.T, file string) *recording {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := &recording{}
	if err := yaml.Unmarshal(raw, r); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return r
}

// answer is what the API server answers to a read; false where it has no such object.
func (r *recording) answer(u *url.URL) (any, bool) {
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	skip := 3 // apis/GROUP/VERSION
	if parts[0] == "api" {
		skip = 2
	}
	if len(parts) <= skip {
		return nil, false
	}
	apiVersion, parts := strings.Join(parts[1:skip], "/"), parts[skip:]
	namespace := ""
	if parts[0] == "namespaces" && len(parts) > 2 {
		namespace, parts = parts[1], parts[2:]
	}
	kind := kindOf(apiVersion, parts[0])
	if kind == "" {
		return nil, false
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": apiVersion, "kind": kind + "List", "metadata": map[string]any{}}}
	for i := range r.Objects {
		obj := &r.Objects[i]
		if obj.GetAPIVersion() != apiVersion || obj.GetKind() != kind || (namespace != "" && obj.GetNamespace() != namespace) {
			continue
		}
		if len(parts) > 1 && obj.GetName() == parts[1] {
			return obj.Object, true
		}
		if selects(u.Query(), obj) {
			list.Items = append(list.Items, *obj)
		}
	}
	if len(parts) > 1 {
		return nil, false
	}
	return list.UnstructuredContent(), true
}

// selects reports whether the selectors of a list include an object.
func selects(query url.Values, obj *unstructured.Unstructured) bool {
	byLabel, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return false
	}
	byField, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return false
	}
	values := fields.Set{}
	for _, r := range byField.Requirements() {
		values[r.Field], _, _ = unstructured.NestedString(obj.Object, strings.Split(r.Field, ".")...)
	}
	return byLabel.Matches(labels.Set(obj.GetLabels())) && byField.Matches(values)
}

// question is a command, and what its answer has to tell, whatever words it is put in.
type question struct {
	Ask string
	// Facts are regular expressions, whatever their case, of which each has to match the answer with its white space made one blank.
	Facts []string
	// Fails is set where the command has to fail. Its error is part of the answer.
	Fails bool
}

// What people ask of clusters in which something has happened. The answers are compared as facts, so that they outlive their wording.
func TestQuestions(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	const dir = "testdata/questions"
	raw, err := os.ReadFile(filepath.Join(dir, "questions.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	clusters := map[string][]question{}
	if err := yaml.UnmarshalStrict(raw, &clusters); err != nil {
		t.Fatal(err)
	}
	for cluster, questions := range clusters {
		r := readRecording(t, filepath.Join(dir, cluster+".yaml"))
		s := &server{objects: map[string]any{}, now: r.Time, recording: r}
		address := s.serve(t, recorded...)
		for _, q := range questions {
			t.Run(cluster+"/"+q.Ask, func(t *testing.T) {
				out, err := lockstep(append(strings.Fields(q.Ask), address)...)
				if q.Fails != (err != nil) {
					t.Errorf("error: %v", err)
				}
				if err != nil {
					out += err.Error()
				}
				text := strings.Join(strings.Fields(out), " ")
				for _, fact := range q.Facts {
					if !regexp.MustCompile("(?i)" + fact).MatchString(text) {
						t.Errorf("%q is not told:\n%s", fact, out)
					}
				}
			})
		}
	}
}

// A list of a recording is one of its kind, by the selectors of the request.
func TestRecording(t *testing.T) {
	r := &recording{}
	if err := json.Unmarshal([]byte(`{"objects": [
		{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "a", "name": "p1", "labels": {"job": "x"}}, "spec": {"nodeName": "n1"}},
		{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "b", "name": "p2", "labels": {"job": "y"}}},
		{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}]}`), r); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/api/v1/pods":                                  "p1 p2",
		"/api/v1/namespaces/b/pods":                     "p2",
		"/api/v1/pods?labelSelector=job=x":              "p1",
		"/api/v1/pods?fieldSelector=spec.nodeName%3D":   "p2",
		"/api/v1/pods?fieldSelector=spec.nodeName%3Dn1": "p1",
		"/api/v1/nodes/n1":                              "n1",
		"/api/v1/nodes/n2":                              "",
		"/apis/apps/v1/deployments":                     "",
	} {
		u, err := url.Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := r.answer(u)
		obj, _ := answer.(map[string]any)
		var names []string
		u2 := unstructured.Unstructured{Object: obj}
		if u2.IsList() {
			_ = u2.EachListItem(func(o runtime.Object) error { names = append(names, o.(metav1.Object).GetName()); return nil })
		} else if obj != nil {
			names = append(names, u2.GetName())
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}
