// The spans of requests to the API server.

package tracing

import (
	"net/http"
	"strings"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
)

// Transport gives each request of a stage of a pass a span, and tells the API server of it, whose own spans are then part of the trace
// where it has tracing on. Other requests, such as those of caches, leave as they are. It is for rest.Config.Wrap.
func (t *Tracer) Transport(next http.RoundTripper) http.RoundTripper {
	return otelhttp.NewTransport(next,
		otelhttp.WithTracerProvider(t.provider),
		otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithFilter(noteRequest),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return r.Method + " " + resourceOf(r.URL.Path) }),
	)
}

// noteRequest reports whether a request is part of a pass, which has then done something.
func noteRequest(r *http.Request) bool {
	pass, ok := r.Context().Value(passKey{}).(*Pass)
	if ok {
		pass.worked.Store(true)
	}
	return ok
}

// resourceOf is the resource, and the subresource if there is one, of a path such as
// /apis/lockstep.dev/v1alpha1/namespaces/research/trainingjobs/llm/status. Names are left out: the span's attributes have the URL.
func resourceOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	group := 2 // api/v1
	if parts[0] == "apis" {
		group = 3 // apis/lockstep.dev/v1alpha1
	}
	parts = parts[min(group, len(parts)):]
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	switch len(parts) {
	case 0:
		return path
	case 1, 2:
		return parts[0]
	}
	return parts[0] + "/" + parts[2]
}
