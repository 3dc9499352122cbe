// Checkpoints: the requests that programs are sent before they are moved. They go out beside
// the reconciler, which never waits for a program; their answers make it look at the job again.

package controllers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

const (
	// maxAsked is how many pods of all jobs are asked side by side, maxAskedOfNamespace how many of one namespace, and
	// maxAskedOfJob how many of one job, so that programs that never answer do not use up the time of others. The pods of one request
	// are asked together or not at all, because a checkpoint that is saved by all needs all: a request for more pods than maxAskedOfJob
	// counts as that many.
	maxAsked            = 8192
	maxAskedOfNamespace = maxAsked / 4
	maxAskedOfJob       = maxAskedOfNamespace / 2
	// askAgain is how long after a pod was not reached, or had no time, it is asked again.
	askAgain = time.Second
	// dialTimeout is how long a pod has to accept a connection.
	dialTimeout = 5 * time.Second
)

// programs is the HTTP client that talks to users' programs: it has no credentials, follows no
// redirect, uses no proxy, and reads nothing of an answer but its status.
var programs = &http.Client{
	Transport: &http.Transport{
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: 16 << 10,
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// checkpointRequest is the body of a request; docs/researchers.md documents it.
type checkpointRequest struct {
	ID        string             `json:"id"`
	Namespace string             `json:"namespace"`
	Job       string             `json:"job"`
	Pod       string             `json:"pod"`
	Incident  int32              `json:"incident"`
	Reason    v1alpha1.EventType `json:"reason"`
	Signal    string             `json:"signal,omitempty"`
	Moves     []string           `json:"moves"`
	Deadline  string             `json:"deadline"`
}

// checkpoints sends requests, and keeps what comes back while somebody waits for it.
type checkpoints struct {
	mu      sync.Mutex
	sent    map[types.NamespacedName]map[string]*sentRequest // by job and ID
	slots   shares
	wakes   chan event.GenericEvent
	running sync.WaitGroup
	stopped bool
}

// sentRequest is a request that some pods were sent.
type sentRequest struct {
	answers map[gang.AnswerKey]gang.Answer
	open    int // pods that have not answered for good
	cancel  []context.CancelFunc
}

// answers are what is known of a job's requests; nil where none was sent.
func (c *checkpoints) answers(job types.NamespacedName) map[gang.AnswerKey]gang.Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sent[job]) == 0 {
		return nil
	}
	out := map[gang.AnswerKey]gang.Answer{}
	for _, request := range c.sent[job] {
		maps.Copy(out, request.answers)
	}
	return out
}

// send sends a request to pods, which have so much time, and returns at once.
func (c *checkpoints) send(job types.NamespacedName, ask policies.Ask, timeout time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	if c.sent == nil {
		c.sent = map[types.NamespacedName]map[string]*sentRequest{}
	}
	if c.sent[job] == nil {
		c.sent[job] = map[string]*sentRequest{}
	}
	request := c.sent[job][ask.ID]
	if request == nil {
		request = &sentRequest{answers: map[gang.AnswerKey]gang.Answer{}}
		c.sent[job][ask.ID] = request
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	request.cancel = append(request.cancel, cancel)
	request.open += len(ask.Pods)
	for _, p := range ask.Pods {
		request.answers[gang.AnswerKey{Request: ask.ID, Pod: p.UID}] = gang.Answer{Message: notAsked}
	}
	c.running.Go(func() {
		defer cancel()
		c.askAll(ctx, job, ask, request)
	})
}

// notAsked is what is known of a pod whose request waits for its turn.
const notAsked = "not asked, because the manager was asking as many other pods as it may"

// askAll asks all pods of a request side by side, once there is room for them.
func (c *checkpoints) askAll(ctx context.Context, job types.NamespacedName, ask policies.Ask, request *sentRequest) {
	n := int64(min(len(ask.Pods), maxAskedOfJob))
	for _, share := range []struct {
		of   types.NamespacedName
		size int64
	}{{job, maxAskedOfJob}, {types.NamespacedName{Namespace: job.Namespace}, maxAskedOfNamespace}, {types.NamespacedName{}, maxAsked}} {
		release, err := c.slots.acquire(ctx, share.of, share.size, n)
		if err != nil {
			return // its time is over
		}
		defer release()
	}
	for _, p := range ask.Pods {
		c.note(request, gang.AnswerKey{Request: ask.ID, Pod: p.UID}, gang.Answer{})
	}
	var pods sync.WaitGroup
	for _, p := range ask.Pods {
		pods.Go(func() { c.ask(ctx, job, ask, p, request) })
	}
	pods.Wait()
}

// ask asks a pod until it answers for good or its time is over.
func (c *checkpoints) ask(ctx context.Context, job types.NamespacedName, ask policies.Ask, pod policies.AskedPod, request *sentRequest) {
	body, err := json.Marshal(checkpointRequest{
		ID: ask.ID, Namespace: job.Namespace, Job: job.Name, Pod: pod.Name, Incident: ask.Incident, Reason: ask.Reason, Signal: ask.Signal,
		Moves: ask.Moves, Deadline: ask.Deadline.UTC().Format(time.RFC3339),
	})
	if err != nil {
		panic(err) // it holds nothing that has no JSON
	}
	to := url.URL{Scheme: "http", Host: net.JoinHostPort(pod.IP, strconv.Itoa(int(ask.Port))), Path: ask.Path}
	key := gang.AnswerKey{Request: ask.ID, Pod: pod.UID}
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { c.note(request, key, gang.Answer{}) }}
	err = wait.PollUntilContextCancel(httptrace.WithClientTrace(ctx, trace), askAgain, true, func(ctx context.Context) (bool, error) {
		answer := post(ctx, to.String(), body)
		if ctx.Err() != nil {
			return false, ctx.Err() // what is known of it stays as it is
		}
		return c.note(request, key, answer), nil
	})
	if err == nil {
		c.wake(ctx, job, request, key)
	}
}

// post sends a request once.
func post(ctx context.Context, to string, body []byte) gang.Answer {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return gang.Answer{Refused: true, Message: "cannot be asked: " + err.Error()}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "lockstep")
	response, err := programs.Do(request)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		return gang.Answer{Message: err.Error()}
	}
	response.Body.Close()
	said := fmt.Sprintf("answered %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	switch code := response.StatusCode; {
	case code >= 200 && code < 300:
		return gang.Answer{Saved: true}
	case code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests:
		return gang.Answer{Message: said}
	}
	return gang.Answer{Refused: true, Message: said}
}

// note keeps an answer, and returns whether it is one for good.
func (c *checkpoints) note(request *sentRequest, key gang.AnswerKey, answer gang.Answer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	request.answers[key] = answer
	final := answer.Saved || answer.Refused
	if final {
		request.open--
	}
	return final
}

// wake has the job looked at again, where the answer of a pod may be the last that it waits for.
func (c *checkpoints) wake(ctx context.Context, job types.NamespacedName, request *sentRequest, key gang.AnswerKey) {
	c.mu.Lock()
	last := request.open == 0 || request.answers[key].Refused
	c.mu.Unlock()
	if !last || c.wakes == nil {
		return
	}
	named := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name}}
	select {
	case c.wakes <- event.GenericEvent{Object: named}:
	case <-ctx.Done():
	}
}

// keep forgets the requests of a job but those of these IDs, whose pods are asked no more.
func (c *checkpoints) keep(job types.NamespacedName, ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, request := range c.sent[job] {
		if !slices.Contains(ids, id) {
			request.stop()
			delete(c.sent[job], id)
		}
	}
	if len(c.sent[job]) == 0 {
		delete(c.sent, job)
	}
}

func (r *sentRequest) stop() {
	for _, cancel := range r.cancel {
		cancel()
	}
}

// Start waits for the end of the manager, and ends what is still being asked.
func (c *checkpoints) Start(ctx context.Context) error {
	<-ctx.Done()
	c.mu.Lock()
	c.stopped = true
	for _, requests := range c.sent {
		for _, request := range requests {
			request.stop()
		}
	}
	c.mu.Unlock()
	c.running.Wait()
	return nil
}
