// Containers of supervised pods, each with the real code of a supervisor.

package chaos

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/supervisors"
	"github.com/lockstep-dev/lockstep/supervisor/epoch"
	"github.com/lockstep-dev/lockstep/supervisor/stream"
	"github.com/lockstep-dev/lockstep/test/supervision/simulated"
)

// container has a supervisor, and another one after each restart.
type container struct {
	*simulated.Supervisor
	rank   string
	status simulated.Status
	// kept is the highest epoch that its supervisors have seen.
	kept int64
	// kill ends it with its program, and returns when nothing of them is left.
	kill func()
}

// exit is the end of a container by itself.
type exit struct {
	rank string
	code int
	at   time.Time
}

// run starts the supervisor of a pod.
func (k *kubelet) run(ctx context.Context, pod *corev1.Pod) error {
	first, err := strconv.ParseInt(pod.Annotations[v1alpha1.AnnotationEpoch], 10, 64)
	if err != nil {
		return err
	}
	token, ca, err := k.identify(ctx, pod)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	gone := make(chan struct{})
	c := &container{kept: first, rank: pod.Labels[v1alpha1.LabelTask] + pod.Name[strings.LastIndex(pod.Name, "-"):], kill: func() { cancel(); <-gone }}
	k.begin(c, token, ca, false)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.containers[pod.UID] = c
	go func() {
		defer close(gone)
		for {
			code, ended := c.Run(ctx)
			if !ended {
				return
			}
			k.exited(exit{c.rank, code, time.Now()})
			if !k.restarts {
				return
			}
			k.begin(c, token, ca, true)
		}
	}()
	return nil
}

// begin gives a container another supervisor.
func (k *kubelet) begin(c *container, token, ca string, restarted bool) {
	s := simulated.New(simulated.Options{
		Machine: epoch.Options{Epoch: c.kept, Restarted: restarted, ManagerTimeout: k.managerTimeout},
		Stream: stream.Options{
			Address: k.lane.supervisors.Address, ServerName: localhost, TokenFile: token, CAFile: ca,
			FirstDelay: firstDelay, MaxDelay: maxDelay, Log: slog.New(slog.DiscardHandler),
		},
		Stopping: func(ctx context.Context) { k.stopping(ctx, c.rank) },
		Seen:     func(e int64) { c.kept = e; k.oracle.Saw(c.rank, e) },
		Started:  func(e int64) { k.oracle.Started(c.rank, e) },
		Stopped:  func(e int64) { k.oracle.Stopped(c.rank, e) },
		Changed: func(s simulated.Status) {
			k.mu.Lock()
			defer k.mu.Unlock()
			c.status = s
		},
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	c.Supervisor, c.status = s, simulated.Status{}
}

// identify writes the files of a pod's volume: a token of its own, and the certificates that it is to trust.
func (k *kubelet) identify(ctx context.Context, pod *corev1.Pod) (token, ca string, err error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences:      []string{supervisors.Audience},
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Spec.ServiceAccountName}}
	if err := testCluster.Client().SubResource("token").Create(ctx, account, request); err != nil {
		return "", "", err
	}
	token, ca = filepath.Join(k.dir, string(pod.UID)+".token"), filepath.Join(k.dir, string(pod.UID)+".crt")
	return token, ca, errors.Join(
		os.WriteFile(token, []byte(request.Status.Token), 0o600),
		os.WriteFile(ca, []byte(pod.Annotations[v1alpha1.AnnotationManagerCA]), 0o600),
	)
}

// kill ends the container of a pod, if it has one.
func (k *kubelet) kill(pod types.UID) {
	k.mu.Lock()
	c := k.containers[pod]
	k.containers[pod] = nil
	k.mu.Unlock()
	if c != nil {
		c.kill()
	}
}
