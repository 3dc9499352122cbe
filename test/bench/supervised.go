// Programs restarted together: one gang with a supervisor in each pod, of which a program fails again and again. The supervisors are
// real ones in a process of their own; the pods are simulated, and so are the programs.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/supervisors"
	"github.com/lockstep-dev/lockstep/test/bench/ranks"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/operator"
)

// supervisedEpoch is the epoch in which the gang starts.
const supervisedEpoch = 1

// supervisedBench is this part of a run.
type supervisedBench struct {
	*bench
	gang  *gang
	watch *epochWatch
	ranks *ranks.Process
}

// measureSupervised takes the figures of a gang of so many ranks.
func (b *bench) measureSupervised(ctx context.Context, size int) (err error) {
	pool := roomFor(size)
	pool.Name = "supervised"
	say("supervised: %d ranks in a pool of %d nodes", size, len(pool.NodeNames()))
	if err := b.cluster.AddTopology(ctx, pool); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.cluster.RemoveTopology(context.WithoutCancel(ctx), pool.Name)) }()
	s := &supervisedBench{bench: b, gang: &gang{name: pool.Name + "-gang", pods: size, pool: pool}}
	b.results.supervised = &supervisedResults{ranks: size}
	if err := errors.Join(s.play(ctx), b.cluster.Err()); err != nil {
		return err
	}
	peers := func() samples { return b.results.of(size, &volcano, restartJob) }
	if len(peers()) == 0 && b.options.restartPeers > 0 {
		if err := b.peer(ctx, pool, size); err != nil {
			return err
		}
	}
	b.results.supervised.peers = peers()
	return nil
}

// play starts the gang, has programs fail, and takes everything away.
func (s *supervisedBench) play(ctx context.Context) (err error) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	if s.watch, err = newEpochWatch(watching, s.cluster.RESTConfig(), s.cluster.Client().Scheme()); err != nil {
		return err
	}
	job := s.gang.supervised()
	if err := s.cluster.Client().Create(ctx, job); err != nil {
		return fmt.Errorf("create %s: %w", s.gang.name, err)
	}
	if _, err := s.recorder.await(ctx, s.gang.name, timeoutOf(s.gang.pods), func(l lives) bool { return l.run(s.gang.pods) }); err != nil {
		return fmt.Errorf("waiting until %s runs: %w", s.gang.name, err)
	}
	if err := s.calm(ctx, &lockstep, s.gang.name); err != nil {
		return err
	}
	if err := s.connect(ctx); err != nil {
		return err
	}
	for i := range s.options.restarts {
		if err := s.restart(ctx, i); err != nil {
			return errors.Join(err, s.ranks.Stop())
		}
	}
	return errors.Join(s.ranks.Stop(), s.remove(ctx, job))
}

// connect starts the supervisors, and waits until the manager has left nothing undone.
func (s *supervisedBench) connect(ctx context.Context) error {
	r := s.results.supervised
	described, err := s.describe(ctx)
	if err != nil {
		return err
	}
	r.alone = s.memory()
	began := time.Now()
	if s.ranks, err = ranks.Start(ctx, described, timeoutOf(s.gang.pods)); err != nil {
		return err
	}
	r.connecting = time.Since(began)
	if err := s.calm(ctx, &lockstep, s.gang.name); err != nil {
		return errors.Join(err, s.ranks.Stop())
	}
	r.connected = s.memory()
	say("supervised: all connected after %s s; the manager has %d MiB, and had %d", seconds(r.connecting), r.connected, r.alone)
	return nil
}

// describe writes what each pod's volumes have, and says where.
func (s *supervisedBench) describe(ctx context.Context) (*ranks.Gang, error) {
	pods := &corev1.PodList{}
	if err := s.cluster.Client().List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelJob: s.gang.name}); err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", s.gang.name, err)
	}
	described := &ranks.Gang{Addresses: []string{s.supervisors}, ServerName: managerHost, Ranks: make([]ranks.Rank, len(pods.Items))}
	return described, parallel(len(pods.Items), func(i int) (err error) {
		described.Ranks[i], err = s.identify(ctx, &pods.Items[i])
		return err
	})
}

// identify writes a token of a pod and the manager's CA by the pod's annotation, as its kubelet would.
func (b *bench) identify(ctx context.Context, pod *corev1.Pod) (ranks.Rank, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences:         []string{supervisors.Audience},
		ExpirationSeconds: new(int64(24 * 3600)), // longer than any benchmark
		BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Spec.ServiceAccountName}}
	if err := b.cluster.Client().SubResource("token").Create(ctx, account, request); err != nil {
		return ranks.Rank{}, fmt.Errorf("ask for a token of %s: %w", pod.Name, err)
	}
	folder := filepath.Join(b.dir, "pods", pod.Name)
	rank := ranks.Rank{Epoch: supervisedEpoch, CAFile: filepath.Join(folder, "ca.crt"), TokenFile: filepath.Join(folder, "token")}
	return rank, errors.Join(
		os.MkdirAll(folder, 0o700),
		os.WriteFile(rank.TokenFile, []byte(request.Status.Token), 0o600),
		os.WriteFile(rank.CAFile, []byte(pod.Annotations[v1alpha1.AnnotationManagerCA]), 0o600),
	)
}

// restart has the program of one rank fail, and takes down what that leads to.
func (s *supervisedBench) restart(ctx context.Context, i int) error {
	limit := timeoutOf(s.gang.pods)
	mark, ours, theirs := s.audit.mark(), s.processor(operator.Name), processorOf(s.ranks.PID())
	done, err := s.ranks.Fail((s.gang.pods/2+i)%s.gang.pods, limit)
	if err != nil {
		return err
	}
	if want := int64(supervisedEpoch + 1 + i); done.Epoch != want {
		return fmt.Errorf("restart %d has led to epoch %d, and not %d", i, done.Epoch, want)
	}
	r := &programRestart{failed: done.Failed, waiting: done.Waiting, running: done.Running}
	err = wait.PollUntilContextTimeout(ctx, glance, limit, true, func(context.Context) (recovered bool, err error) {
		r.recorded, r.recovered = s.watch.times(s.gang.name, done.Epoch)
		return !r.recovered.IsZero(), nil
	})
	if err != nil {
		return fmt.Errorf("waiting until the incident of epoch %d has recovered: %w", done.Epoch, err)
	}
	if err := s.calm(ctx, &lockstep, s.gang.name); err != nil {
		return err
	}
	if r.writes, err = s.audit.writes(mark); err != nil {
		return err
	}
	r.processor, r.supervisors, r.memory = s.processor(operator.Name)-ours, processorOf(s.ranks.PID())-theirs, s.memory()
	s.results.supervised.restarts = append(s.results.supervised.restarts, r)
	say("supervised, restart %d: %s", i+1, r)
	return nil
}

// peer has Volcano restart a plain Volcano Job of the same size.
func (b *bench) peer(ctx context.Context, pool cluster.Topology, size int) error {
	t := turn{bench: b, side: &volcano, gang: &gang{name: pool.Name + "-volcano", pods: size, pool: pool}, rounds: 1}
	job := t.side.gang(t.gang)
	came, err := t.start(ctx, job)
	for i := 0; came && err == nil && i < b.options.restartPeers; i++ {
		came, err = t.strike(ctx, strikeJob, i, b.options.restartPeers)
	}
	if err != nil {
		return err
	}
	return t.remove(ctx, job)
}
