package nvsentinel

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/lockstep-dev/lockstep/test/check"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// indexer gives a fake API server the index of the cache.
type indexer struct{ builder *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, obj client.Object, field string, value client.IndexerFunc) error {
	i.builder.WithIndex(obj, field, value)
	return nil
}

// requestFor is a DrainRequest for a node, or one that is malformed.
func requestFor(node, name string, created time.Time, pods any) client.Object {
	r := New()
	r.SetNamespace("nvsentinel")
	r.SetName(name)
	r.SetCreationTimestamp(metav1.NewTime(created))
	r.Object["spec"] = map[string]any{"nodeName": node, "podsToDrain": pods}
	return r
}

// The pods of all requests for a node leave it. Namespaces are kept apart.
func TestLeaving(t *testing.T) {
	pods := func(namespace string, names ...any) any { return map[string]any{namespace: names} }
	s := runtime.NewScheme()
	s.AddKnownTypeWithName(DrainRequests, New())
	builder := fake.NewClientBuilder().WithScheme(s).WithObjects(
		requestFor("n1", "first", t0, pods("research", "a", "b")), requestFor("n1", "second", t0.Add(time.Minute), pods("research", "b")),
		requestFor("n1", "others", t0, pods("other", "c")), requestFor("n1", "malformed", t0, "d"), requestFor("n2", "elsewhere", t0, pods("research", "e")),
	)
	if err := AddIndex(t.Context(), indexer{builder}); err != nil {
		t.Fatal(err)
	}
	leaving, err := (&Requests{Reader: builder.Build()}).Leaving(t.Context(), "n1")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]time.Duration{}
	for pod, requests := range leaving {
		for _, at := range requests {
			got[pod.String()] = append(got[pod.String()], at.Sub(t0))
		}
		slices.Sort(got[pod.String()])
	}
	check.Equal(t, "leaving", map[string][]time.Duration{"research/a": {0}, "research/b": {0, time.Minute}, "other/c": {0}}, got)
}

// Of a node that is not cordoned, or that somebody else has cordoned, DrainRequests do not say which pods leave it.
func TestCordons(t *testing.T) {
	quarantined := map[string]string{AnnotationCordoned: "True"}
	for name, tc := range map[string]struct {
		cordoned    bool
		annotations map[string]string
		want        bool
	}{
		"by NVSentinel":                       {true, quarantined, true},
		"by others":                           {true, nil, false},
		"by others, then by NVSentinel":       {true, map[string]string{AnnotationCordoned: "True", annotationCordonedBefore: "True"}, false},
		"by others, in a dry run":             {true, map[string]string{AnnotationCordoned: "True", annotationDryRun: "True"}, false},
		"uncordoned, with a late annotation":  {false, quarantined, false},
		"tainted by NVSentinel, not cordoned": {false, nil, false},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}, Spec: corev1.NodeSpec{Unschedulable: tc.cordoned}}
		check.Equal(t, name, tc.want, Cordons(node))
	}
}
