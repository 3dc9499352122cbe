package tracing

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

// A request of a pass is a span below its stage, and the API server is told of it. A request of anything else is neither.
func TestRequestsOfAPass(t *testing.T) {
	var parents []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		parents = append(parents, r.Header.Get("traceparent"))
	}))
	defer server.Close()
	exporter := tracetest.NewInMemoryExporter()
	tracer := New(exporter, resource.Empty(), MaxSamplingRate, clock.RealClock{})
	client := &http.Client{Transport: tracer.Transport(http.DefaultTransport)}
	patch := func(ctx context.Context) {
		t.Helper()
		request, err := http.NewRequestWithContext(ctx, http.MethodPatch, server.URL+"/api/v1/nodes/n1", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{UID: "uid"}}
	job.Status.Incidents = []v1alpha1.Incident{{ID: 1}}

	pass := tracer.Pass(job)
	patch(pass.Stage(t.Context(), Act))
	pass.End(nil)
	patch(t.Context())
	if err := tracer.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := exporter.GetSpans()
	var names []string
	for _, s := range spans {
		names = append(names, s.Name)
	}
	check.Equal(t, "spans, as they ended", []string{"PATCH nodes", "act", "pass"}, names)
	check.Equal(t, "stage of the request", spans[1].SpanContext.SpanID(), spans[0].Parent.SpanID())
	if len(parents) != 2 || !strings.Contains(parents[0], spans[0].SpanContext.SpanID().String()) || parents[1] != "" {
		t.Errorf("the API server was told of %q", parents)
	}
}

// A pass of an open incident that neither wrote nor asked for anything is left out.
func TestAPassThatDidNothing(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	tracer := New(exporter, resource.Empty(), MaxSamplingRate, clock.RealClock{})
	job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{UID: "uid"}}
	job.Status.Incidents = []v1alpha1.Incident{{ID: 1}}
	pass := tracer.Pass(job)
	pass.Stage(t.Context(), Observe)
	pass.Stage(t.Context(), Act)
	pass.End(nil)
	if err := tracer.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	check.Equal(t, "spans", 0, len(exporter.GetSpans()))
}

func TestResourceOf(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/nodes/n1":                                                        "nodes",
		"/api/v1/namespaces/research/pods":                                        "pods",
		"/api/v1/namespaces/research/pods/llm-1-worker-0/binding":                 "pods/binding",
		"/apis/lockstep.dev/v1alpha1/namespaces/research/trainingjobs/llm/status": "trainingjobs/status",
		"/apis/batch.volcano.sh/v1alpha1/namespaces/research/jobs/llm-1":          "jobs",
		"/apis/topology.volcano.sh/v1alpha1/hypernodes/rack-a/status":             "hypernodes/status",
		"/version": "/version",
		"/":        "/",
	} {
		check.Equal(t, path, want, resourceOf(path))
	}
}
