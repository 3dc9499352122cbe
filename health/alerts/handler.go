// The webhook over HTTP: who calls, how much, and what is answered. Alertmanager sends again
// at once after a 5xx, and with the group's next notice after a 4xx (notify/util.go and
// dispatch/dispatch.go of 0.31): no answer loses an alert.

package alerts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
)

const (
	// Path is where the receiver listens.
	Path = "/alertmanager"
	// maxBody of a request: some 4,000 alerts of 1 KiB.
	maxBody = 4 << 20
	// maxConcurrent requests are worked on; more wait for their turn, up to maxWait.
	maxConcurrent = 8
	maxWait       = 5 * time.Second
	// maxTime of one request, from its header to the answer.
	maxTime = 30 * time.Second
	// maxReasons are told in one answer.
	maxReasons = 20
)

// Handler serves the webhook.
type Handler struct {
	Authorizer *Authorizer
	Receiver   *Receiver
	Log        logr.Logger

	slots chan struct{}
}

// NewHandler returns a handler whose requests are bounded in number, size and time.
func NewHandler(a *Authorizer, r *Receiver, log logr.Logger) http.Handler {
	h := &Handler{Authorizer: a, Receiver: r, Log: log, slots: make(chan struct{}, maxConcurrent)}
	return counted(http.TimeoutHandler(h, maxTime, "not done in time: it is safe to send it again\n"))
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := h.serve(w, r)
	if refused := (*refusal)(nil); errors.As(err, &refused) {
		h.logRefusal(refused)
		switch refused.code {
		case http.StatusMethodNotAllowed:
			w.Header().Set("Allow", http.MethodPost)
		case http.StatusUnauthorized:
			w.Header().Set("WWW-Authenticate", "Bearer")
		case http.StatusServiceUnavailable:
			w.Header().Set("Retry-After", "5")
		}
		http.Error(w, refused.reason, refused.code)
		return
	}
	_, _ = io.WriteString(w, text)
}

// logRefusal logs a sender without the right as an error: nothing that it sends arrives until a person mends that. What else is refused
// is sent again.
func (h *Handler) logRefusal(refused *refusal) {
	about := []any{"code", refused.code, "reason", refused.reason}
	switch refused.code {
	case http.StatusUnauthorized, http.StatusForbidden:
		h.Log.Error(nil, "alerts refused", about...)
	default:
		h.Log.Info("alerts refused", about...)
	}
}

// serve returns what is answered to a request that was served, or a refusal. What costs
// nothing is asked first, and nobody's body is read before it is known who calls.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) (string, error) {
	if r.Method != http.MethodPost {
		return "", refuse(http.StatusMethodNotAllowed, "%s is not served: Alertmanager posts", r.Method)
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return "", refuse(http.StatusUnsupportedMediaType, "Content-Type: %q is not application/json", r.Header.Get("Content-Type"))
	}
	release, refused := h.slot(r.Context())
	if refused != nil {
		return "", refused
	}
	defer release()
	if refused := h.Authorizer.authorize(r.Context(), r); refused != nil {
		return "", refused
	}
	payload, refused := read(w, r)
	if refused != nil {
		return "", refused
	}
	result, err := h.Receiver.Receive(r.Context(), payload)
	count(result)
	return h.answer(payload, result, err)
}

// slot waits for a turn.
func (h *Handler) slot(ctx context.Context) (release func(), refused *refusal) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	select {
	case h.slots <- struct{}{}:
		return func() { <-h.slots }, nil
	case <-ctx.Done():
		return nil, refuse(http.StatusServiceUnavailable, "%d requests are being worked on: send it again", maxConcurrent)
	}
}

func read(w http.ResponseWriter, r *http.Request) (Payload, *refusal) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return Payload{}, refuse(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes: let group_by of the route name the label of the node", maxBody)
	}
	if err != nil {
		return Payload{}, refuse(http.StatusBadRequest, "the body cannot be read: %v", err)
	}
	payload, err := Decode(body)
	if err != nil {
		return Payload{}, refuse(http.StatusBadRequest, "%v", err)
	}
	return payload, nil
}

// answer says what became of the alerts. A payload of which no alert says what is needed is a
// bad one; where some do, the others must not keep them out.
func (h *Handler) answer(p Payload, result Result, err error) (string, error) {
	var text strings.Builder
	for _, o := range outcomes {
		if n := result.Outcomes[o]; n > 0 {
			fmt.Fprintf(&text, "%s: %d\n", o, n)
		}
	}
	for i, reason := range result.Reasons {
		if i == maxReasons {
			fmt.Fprintf(&text, "and %d more\n", len(result.Reasons)-maxReasons)
			break
		}
		fmt.Fprintln(&text, reason)
	}
	if p.TruncatedAlerts > 0 {
		fmt.Fprintf(&text, "Alertmanager left out %d alerts: leave max_alerts of the webhook at 0\n", p.TruncatedAlerts)
	}
	switch {
	case err != nil:
		return "", refuse(http.StatusServiceUnavailable, "%s%v", text.String(), err)
	case result.Outcomes[Refused] == len(p.Alerts):
		return "", refuse(http.StatusBadRequest, "%s", strings.TrimSpace(text.String()))
	case len(result.Reasons) > 0:
		h.Log.Info("alerts not applied", "alerts", len(p.Alerts), "outcomes", result.Outcomes, "first", result.Reasons[0])
	}
	return text.String(), nil
}
