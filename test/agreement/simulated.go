// Simulated kubelets: the API server, its controllers, Volcano and the manager are real. Pods are started by KWOK, and what their
// program and their kubelet do when a rank is lost is played here.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/lab"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/operator"
)

// peerAbort is how long the ranks of the played program need to notice that one is lost.
const peerAbort = 2 * time.Second

type simulated struct {
	*cluster.Cluster
	dir string
}

func startSimulated(ctx context.Context) (ground, error) {
	g := &simulated{}
	if err := g.start(ctx); err != nil {
		return nil, errors.Join(err, g.stop())
	}
	return g, nil
}

func (g *simulated) start(ctx context.Context) (err error) {
	if g.dir, err = os.MkdirTemp("", "lockstep-agreement-"); err != nil {
		return err
	}
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return err
	}
	scheme := cluster.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	if g.Cluster, err = cluster.Start(ctx, cluster.Options{
		Name: "agreement", Scheme: scheme, CRDs: []string{filepath.Join(root, "config", "crd")}, Progress: os.Stderr,
	}); err != nil {
		return err
	}
	binary, err := operator.Build(ctx, g.dir)
	if err != nil {
		return err
	}
	kubeconfig, err := operator.Kubeconfig(ctx, g.Cluster)
	if err != nil {
		return err
	}
	_, err = g.Run(ctx, cluster.Command{Name: operator.Name, Path: binary, Args: []string{
		"--metrics-bind-address=0", "--health-probe-bind-address=0", "--kubeconfig=" + kubeconfig,
	}})
	return err
}

func (g *simulated) nodes() *cluster.Cluster { return g.Cluster }

func (g *simulated) stop() error {
	var err error
	if g.Cluster != nil {
		err = g.Stop()
	}
	return errors.Join(err, os.RemoveAll(g.dir))
}

// begin makes a pool of two racks of four nodes, and runs the job in one of them.
func (g *simulated) begin(ctx context.Context, t *trial) (*stage, error) {
	s := &stage{deletesAtOnce: true, pool: cluster.Topology{Name: t.name, Racks: 2, NodesPerRack: 4, GPUsPerNode: 8, Tiers: []int{2}}}
	s.job = simulatedJob(t, s.pool)
	if err := g.AddTopology(ctx, s.pool); err != nil {
		return s, err
	}
	if err := g.Client().Create(ctx, s.job); err != nil {
		return s, err
	}
	return s, wait.PollUntilContextTimeout(ctx, glance, waitLimit, true, func(ctx context.Context) (bool, error) {
		err := g.Client().Get(ctx, client.ObjectKeyFromObject(s.job), s.job)
		return s.job.Status.State == v1alpha1.StateRunning, err
	})
}

func simulatedJob(t *trial, pool cluster.Topology) *v1alpha1.TrainingJob {
	job := &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: t.name},
		Spec: v1alpha1.TrainingJobSpec{
			NetworkTopology: &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologyHard, HighestTierAllowed: new(int32(1))},
			Tasks: []v1alpha1.Task{{Name: "worker", Replicas: int32(t.gang), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				NodeSelector:                  pool.NodeSelector(),
				RestartPolicy:                 corev1.RestartPolicyOnFailure,
				TerminationGracePeriodSeconds: new(int64(1)),
				Containers: []corev1.Container{{
					Name: "main", Image: "trainer",
					Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}},
				}},
			}}}},
		},
	}
	for _, change := range t.change {
		change(job)
	}
	return job
}

func (g *simulated) end(ctx context.Context, s *stage) error {
	if err := g.Client().Delete(ctx, s.job); client.IgnoreNotFound(err) != nil {
		return err
	}
	return g.RemoveTopology(ctx, s.pool.Name)
}

// strike makes a failure, and plays the program: the other ranks exit after peerAbort, and the kubelet restarts what it may restart
// after a second. Pods that are not the same any more by then are no peers.
func (g *simulated) strike(ctx context.Context, s *stage, t *trial) (away time.Duration, err error) {
	began := time.Now()
	pods, err := podsOf(ctx, g.Client(), s.job)
	if err != nil {
		return 0, err
	}
	var hit, peers []corev1.Pod
	for _, r := range t.hit(s.job) {
		hit = append(hit, pods[r])
		delete(pods, r)
	}
	for _, p := range pods {
		peers = append(peers, p)
	}
	if err := g.fail(ctx, s, t.effect, hit); err != nil {
		return 0, err
	}
	until := func(after time.Duration) error { return sleep(ctx, time.Until(began.Add(after))) }
	var restarted []corev1.Pod
	if t.effect == lab.ProcessExit {
		restarted = hit
	}
	err = errors.Join(until(restartInPlace), g.runAgain(ctx, restarted), until(peerAbort), g.exit(ctx, peers),
		until(peerAbort+restartInPlace), g.runAgain(ctx, peers))
	if err == nil && len(s.broken) > 0 { // what it is about begins only then
		err = g.AwaitNodes(ctx, corev1.ConditionUnknown, s.broken...)
	}
	if err != nil || t.away == 0 {
		return 0, err
	}
	err = errors.Join(until(t.away), g.StartHeartbeat(ctx, s.broken...))
	return time.Since(began), err
}

// fail makes the failure itself.
func (g *simulated) fail(ctx context.Context, s *stage, effect lab.Effect, pods []corev1.Pod) error {
	if effect == lab.ProcessExit {
		return g.exit(ctx, pods)
	}
	var errs []error
	for _, p := range pods {
		switch effect {
		case lab.PodLoss:
			errs = append(errs, g.Client().Delete(ctx, &p))
		case lab.NodeLoss:
			s.broken = append(s.broken, p.Spec.NodeName)
			errs = append(errs, g.StopHeartbeat(ctx, p.Spec.NodeName))
		case lab.NodeDeletion:
			errs = append(errs, g.DeleteNode(ctx, p.Spec.NodeName))
		default:
			errs = append(errs, fmt.Errorf("simulated kubelets do not play %s", effect))
		}
	}
	return errors.Join(errs...)
}

// exit ends the processes of the pods that are still there: a container that is restarted in place waits for that.
func (g *simulated) exit(ctx context.Context, pods []corev1.Pod) error {
	return g.eachThere(ctx, pods, func(key client.ObjectKey, now *corev1.Pod) error {
		if now.Spec.RestartPolicy == corev1.RestartPolicyNever {
			return g.FailPod(ctx, key, 1)
		}
		return g.CrashLoop(ctx, key, cluster.Termination{ExitCode: 1})
	})
}

// runAgain has the kubelet restart the containers of the pods that are still there.
func (g *simulated) runAgain(ctx context.Context, pods []corev1.Pod) error {
	return g.eachThere(ctx, pods, func(key client.ObjectKey, now *corev1.Pod) error {
		if now.Spec.RestartPolicy == corev1.RestartPolicyNever {
			return nil
		}
		return g.ContainersReady(ctx, key)
	})
}

func (g *simulated) eachThere(ctx context.Context, pods []corev1.Pod, do func(client.ObjectKey, *corev1.Pod) error) error {
	var errs []error
	for _, p := range pods {
		now, key := &corev1.Pod{}, client.ObjectKeyFromObject(&p)
		err := g.Client().Get(ctx, key, now)
		if err == nil && now.UID == p.UID && now.DeletionTimestamp == nil && now.Status.Phase == corev1.PodRunning {
			err = do(key, now)
		}
		errs = append(errs, client.IgnoreNotFound(err))
	}
	return errors.Join(errs...)
}
