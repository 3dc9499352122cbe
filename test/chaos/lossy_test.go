// Watches of an operator that lose events: what is lost is not told again before the watch ends, and begins again with a list.

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// lossy is what an operator hears by its watches.
type lossy struct {
	mu    sync.Mutex
	loses func(event) bool
	lost  int
	// streams are the watches that are open; expired are the paths of those that have to begin with a list.
	streams map[*http.Request]context.CancelFunc
	expired map[string]bool
}

// event is one of a watch.
type event struct {
	Type     watch.EventType
	Object   json.RawMessage
	resource string
	name     string
}

// pod is the pod that an event is about.
func (e event) pod() (pod corev1.Pod) {
	_ = json.Unmarshal(e.Object, &pod)
	return pod
}

// about reports whether an event of a type is about an object, whatever the type where that is empty.
func (e event) about(resource, name string, of watch.EventType) bool {
	return e.resource == resource && e.name == name && (of == "" || e.Type == of)
}

// hears is for a lane whose operators may lose events.
func hears(w *lossy) func(*lane) {
	w.streams, w.expired = map[*http.Request]context.CancelFunc{}, map[string]bool{}
	return func(l *lane) {
		l.config = rest.CopyConfig(l.config)
		l.config.ContentType = runtime.ContentTypeJSON
		l.config.Wrap(func(next http.RoundTripper) http.RoundTripper { return listener{w, next} })
	}
}

// lose drops events from now on.
func (w *lossy) lose(which func(event) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loses, w.lost = which, 0
}

// missed is how many events have been lost.
func (w *lossy) missed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// again loses nothing more, and has all watches begin again.
func (w *lossy) again() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loses = nil
	for request, end := range w.streams {
		w.expired[request.URL.Path] = true
		end()
	}
}

func (w *lossy) isLost(e event) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.loses == nil || !w.loses(e) {
		return false
	}
	w.lost++
	return true
}

// listener carries the requests of an operator.
type listener struct {
	*lossy
	next http.RoundTripper
}

func (t listener) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	if query.Get("watch") != "true" && query.Get("watch") != "1" {
		return t.next.RoundTrip(r)
	}
	if t.isExpired(r.URL.Path, query.Get("sendInitialEvents") == "true") {
		return expired(r), nil
	}
	ctx, end := context.WithCancel(r.Context())
	r = r.WithContext(ctx)
	response, err := t.next.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusOK {
		end()
		return response, err
	}
	t.mu.Lock()
	t.streams[r] = end
	t.mu.Unlock()
	body := response.Body
	read, write := io.Pipe()
	response.Body = read
	go func() {
		_ = write.CloseWithError(t.pass(write, body, path.Base(r.URL.Path)))
		end()
		_ = body.Close()
		t.mu.Lock()
		delete(t.streams, r)
		t.mu.Unlock()
	}()
	return response, nil
}

// isExpired reports whether a watch has to begin with a list, which this one may do.
func (t listener) isExpired(path string, lists bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	is := t.expired[path]
	delete(t.expired, path)
	return is && !lists
}

// pass hands the events of a watch on.
func (t listener) pass(to io.Writer, from io.Reader, resource string) error {
	for events := json.NewDecoder(from); ; {
		e := event{resource: resource}
		if err := events.Decode(&e); err != nil {
			return err
		}
		var object struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(e.Object, &object); err != nil {
			return err
		}
		if e.name = object.Metadata.Name; t.isLost(e) {
			continue
		}
		if _, err := fmt.Fprintf(to, "{\"type\":%q,\"object\":%s}\n", e.Type, e.Object); err != nil {
			return err
		}
	}
}

// expired is the answer to a watch that begins at what the API server does not have any more.
func expired(r *http.Request) *http.Response {
	const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old resource version"}`
	return &http.Response{
		StatusCode: http.StatusGone, Status: "410 Gone", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Body: io.NopCloser(strings.NewReader(status)), ContentLength: int64(len(status)),
	}
}

// isReady reports whether a pod says that it is ready.
func isReady(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
