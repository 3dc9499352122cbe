// Serve: requests for a checkpoint, and probes.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// savings are the requests that wait for a checkpoint.
type savings struct {
	mu       sync.Mutex
	training bool
	waiting  requests
}

// requests are answered together: with true once all ranks have saved.
type requests []chan bool

func (q requests) answer(saved bool) {
	for _, c := range q {
		c <- saved
	}
}

func newSavings() *savings { return &savings{} }

// open says that training has begun: requests are taken.
func (s *savings) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.training = true
}

// close refuses what still waits, and all that comes.
func (s *savings) close() {
	s.mu.Lock()
	s.training = false
	s.mu.Unlock()
	s.take().answer(false)
}

func (s *savings) isTraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.training
}

// add returns a channel that will hold the answer, nil where the rank does not train.
func (s *savings) add() chan bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.training {
		return nil
	}
	c := make(chan bool, 1)
	s.waiting = append(s.waiting, c)
	return c
}

func (s *savings) wanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) > 0
}

// take returns the requests that the save which begins now will answer.
func (s *savings) take() requests {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.waiting
	s.waiting = nil
	return q
}

// serve listens, and answers from then on, whatever the training is busy with.
func (r *rank) serve() error {
	l, err := net.Listen("tcp", r.http)
	if err != nil {
		return err
	}
	r.emit("serving", "http", l.Addr())
	mux := http.NewServeMux()
	mux.HandleFunc("POST /checkpoint", r.postCheckpoint)
	mux.HandleFunc("GET /healthz", r.getHealth)
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	r.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = r.server.Serve(l) }()
	return nil
}

// leave lets the answers out that are on their way.
func (r *rank) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = r.server.Shutdown(ctx)
}

// getHealth is for a readiness probe: the gang is complete, and trains.
func (r *rank) getHealth(w http.ResponseWriter, _ *http.Request) {
	if !r.savings.isTraining() {
		http.Error(w, "the gang is not complete", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// asked is what this program reads of the manager's request.
type asked struct {
	ID       string    `json:"id"`
	Reason   string    `json:"reason"`
	Deadline time.Time `json:"deadline"`
}

// longestWait is for a request without a deadline.
const longestWait = 10 * time.Minute

// postCheckpoint answers once all ranks have a durable checkpoint of one step. A request
// that is sent again, with the same id, has the state saved again: it is newer then.
func (r *rank) postCheckpoint(w http.ResponseWriter, req *http.Request) {
	var a asked
	body, err := io.ReadAll(io.LimitReader(req.Body, 1<<20))
	if err == nil && len(body) > 0 {
		err = json.Unmarshal(body, &a)
	}
	if err != nil {
		http.Error(w, "the body is not what docs/researchers.md describes: "+err.Error(), http.StatusBadRequest)
		return
	}
	if a.Deadline.IsZero() {
		a.Deadline = time.Now().Add(longestWait)
	}
	ctx, cancel := context.WithDeadline(req.Context(), a.Deadline)
	defer cancel()
	saved := r.savings.add()
	r.emit("checkpoint_requested", "id", a.ID, "reason", a.Reason, "training", saved != nil)
	if saved == nil {
		http.Error(w, "not training", http.StatusServiceUnavailable)
		return
	}
	select {
	case ok := <-saved:
		if ok {
			fmt.Fprintln(w, "saved")
			return
		}
		http.Error(w, "the checkpoint could not be saved by all ranks", http.StatusServiceUnavailable)
	case <-ctx.Done():
		http.Error(w, "not saved in time", http.StatusServiceUnavailable)
	}
}
