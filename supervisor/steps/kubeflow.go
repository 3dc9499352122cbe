// Kubeflow Trainer's status requests, as its SDK and Hugging Face's callback send them (kubeflow/trainer, pkg/statusserver).

package steps

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"github.com/lockstep-dev/lockstep/supervisor/durable"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// The contract of Kubeflow Trainer with a program.
const (
	// EnvURL and EnvOldURL, as earlier versions call it, are where requests go. One that the user has set is left alone.
	EnvURL      = "KUBEFLOW_TRAINER_SERVER_URL"
	EnvOldURL   = "KUBEFLOW_TRAINER_STATUS_URL"
	envToken    = "KUBEFLOW_TRAINER_SERVER_TOKEN"
	envOldToken = "KUBEFLOW_TRAINER_STATUS_TOKEN"

	statusPath = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/lockstep/trainjobs/self/status"
)

const (
	// bodyLimit is how large a request may be, in bytes, as in Kubeflow Trainer.
	bodyLimit = 64 << 10
	// connections is how many there may be at once: the programs of a pod on its host's network are not alone on 127.0.0.1.
	connections = 64
	// requestTimeout is how long a request may take to come.
	requestTimeout = 5 * time.Second
)

// Kubeflow is the door of status requests: a server on 127.0.0.1, which knows its program by a token in a file.
type Kubeflow struct {
	listener         *Listener
	log              *slog.Logger
	socket           net.Listener
	token, tokenFile string
}

// NewKubeflow returns a door that Run opens. The token is another one in each container.
func NewKubeflow(tokenFile string, l *Listener, log *slog.Logger) (*Kubeflow, error) {
	k := &Kubeflow{listener: l, log: log, token: rand.Text(), tokenFile: tokenFile}
	if err := errors.Join(durable.Write(tokenFile, []byte(k.token)), os.Chmod(tokenFile, 0o644)); err != nil { // the program may be another user's
		return nil, fmt.Errorf("the token of status requests: %w", err)
	}
	socket, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("the port of status requests: %w", err)
	}
	k.socket = netutil.LimitListener(socket, connections)
	return k, nil
}

// Environ has the variables that the program finds the door by.
func (k *Kubeflow) Environ() map[string]string {
	url := "http://" + k.socket.Addr().String() + statusPath
	return map[string]string{EnvURL: url, EnvOldURL: url, envToken: k.tokenFile, envOldToken: k.tokenFile}
}

// Run answers requests until the context ends.
func (k *Kubeflow) Run(ctx context.Context) {
	server := &http.Server{
		Handler: k, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, MaxHeaderBytes: 8 << 10,
		ErrorLog: slog.NewLogLogger(k.log.Handler(), slog.LevelDebug),
	}
	server.SetKeepAlivesEnabled(false) // strangers would keep all connections
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(k.socket); !errors.Is(err, http.ErrServerClosed) {
		k.log.Error("No status requests are answered any more", "error", err)
	}
}

// trainerStatus is what a request says. Other fields of it are not used: an estimate by the steps since the program's start, for one, is
// wrong after a resume.
type trainerStatus struct {
	ProgressPercentage *int32   `json:"progressPercentage"`
	Metrics            []metric `json:"metrics"`
}

type metric struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// ServeHTTP answers a request as Kubeflow Trainer does.
func (k *Kubeflow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != statusPath:
		refuse(w, http.StatusNotFound, "want "+statusPath)
	case r.Method != http.MethodPost:
		refuse(w, http.StatusMethodNotAllowed, "want POST")
	case !k.knows(r.Header.Get("Authorization")):
		refuse(w, http.StatusUnauthorized, "want the token in the file of "+envToken+", as a Bearer token")
	default:
		k.read(w, r)
	}
}

// read reads a request of the program.
func (k *Kubeflow) read(w http.ResponseWriter, r *http.Request) {
	program := k.listener.program()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimit))
	tooLarge := new(http.MaxBytesError)
	switch {
	case errors.As(err, &tooLarge):
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("want %d bytes at most", bodyLimit))
	case err != nil:
		refuse(w, http.StatusBadRequest, err.Error())
	default:
		k.take(w, program, body)
	}
}

// knows reports whether a request has the token, with Bearer in any case.
func (k *Kubeflow) knows(authorization string) bool {
	scheme, token, _ := strings.Cut(authorization, " ")
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare([]byte(strings.TrimSpace(token)), []byte(k.token)) == 1
}

// take hears a body, and answers with it.
func (k *Kubeflow) take(w http.ResponseWriter, program int, body []byte) {
	var request struct {
		TrainerStatus *trainerStatus `json:"trainerStatus"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		refuse(w, http.StatusUnprocessableEntity, "want a JSON object with trainerStatus: "+err.Error())
		return
	}
	if status := request.TrainerStatus; status != nil {
		if p := status.ProgressPercentage; p != nil && (*p < 0 || *p > 100) {
			refuse(w, http.StatusUnprocessableEntity, fmt.Sprintf("trainerStatus.progressPercentage: %d: want 0 to 100", *p))
			return
		}
		k.listener.hear(program, time.Now(), status.progress())
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// progress is what a request says of steps. It names no phase: while Hugging Face's trainer evaluates it sends none.
func (s *trainerStatus) progress() *wire.Progress {
	out := &wire.Progress{Percent: s.ProgressPercentage}
	for _, m := range s.Metrics {
		switch m.Name {
		case "current_step":
			out.Step = count(m.Value)
		case "total_steps":
			out.TotalSteps = count(m.Value)
		}
	}
	return out
}

// count reads a number of steps; nil for anything else.
func count(value string) *int64 {
	n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || n < 0 || n >= math.MaxInt64 || n != math.Trunc(n) {
		return nil
	}
	return new(int64(n))
}

// refuse answers as an API server does.
func refuse(w http.ResponseWriter, code int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": why, "code": code,
	})
}
