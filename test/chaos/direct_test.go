// The writes of the supervisors' server and of the leader's election, which have clients of their own: they go over the wire as HTTP requests.

package chaos

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/controllers/supervisors"
)

// direct is the write that a request is, where it does not come from the manager's client.
func (l *life) direct(r *http.Request) (call, bool) {
	verb := map[string]string{http.MethodPost: "create", http.MethodPut: "update"}[r.Method]
	_, resource, found := strings.Cut(r.URL.Path, "/namespaces/"+l.lane+"/")
	if verb == "" || !found {
		return call{}, false
	}
	switch resource, _, _ := strings.Cut(resource, "/"); resource {
	case "secrets":
		return about(verb, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: l.lane, Name: supervisors.SecretName}}), true
	case "leases":
		c := about(verb, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.lane, Name: leaseName}})
		return c, l.wire.waitsFor(c.right()) // a leader is never silent
	}
	return call{}, false
}

// transport has the writes that do not come from the manager's client go over the wire.
func (l *life) transport(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		c, ok := l.direct(r)
		if !ok {
			return next.RoundTrip(r)
		}
		var response *http.Response
		err := l.send(c, func() (err error) {
			response, err = next.RoundTrip(r)
			return err
		})
		if err == nil {
			return response, nil
		}
		if response != nil { // it is lost
			_ = response.Body.Close()
		}
		var refusal apierrors.APIStatus
		if errors.As(err, &refusal) {
			return answer(r, refusal.Status())
		}
		return nil, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip is part of http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer is the API server's, where it turns a request away.
func answer(r *http.Request, status metav1.Status) (*http.Response, error) {
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	body, err := json.Marshal(status)
	return &http.Response{
		Status: http.StatusText(int(status.Code)), StatusCode: int(status.Code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}, err
}
