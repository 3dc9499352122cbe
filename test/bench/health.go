// Reports of ill nodes: how soon the manager decides on one, and whether it keeps up where all nodes
// of a pool fall ill within seconds. The reports are written as a node's agent writes them.

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/health/agent"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/operator"
)

const (
	// healthPods is the size of the gangs, of which there is one for every ten nodes.
	healthPods, nodesPerGang = 4, 10
	// singles is how often one pod of each gang is reported on while nothing else happens.
	singles = 2
	// singlePause is between two single reports: what the first has set in motion is over by then.
	singlePause = 1500 * time.Millisecond
	// stormLength is the time within which all nodes are reported on.
	stormLength = 10 * time.Second
	// healthTimeout bounds every wait; nothing is measured by it.
	healthTimeout = 3 * time.Minute
	// publishers is how many reports are written side by side where no time is taken.
	publishers = 32
)

// healthBench is this part of a run.
type healthBench struct {
	*bench
	pool   cluster.Topology
	gangs  []client.Object
	agents map[string]*agent.Publisher
	watch  *healthWatch
}

// measureHealth takes the figures of one pool of so many nodes, or a few more to make its racks full.
func (b *bench) measureHealth(ctx context.Context, nodes int) (err error) {
	pool := roomFor(nodes)
	pool.Name = "health"
	h := &healthBench{bench: b, pool: pool, agents: map[string]*agent.Publisher{}}
	say("health: a pool of %d nodes", len(pool.NodeNames()))
	watching, stop := context.WithCancel(ctx)
	defer stop()
	if h.watch, err = newHealthWatch(watching, b.cluster.RESTConfig(), b.cluster.Client().Scheme()); err != nil {
		return err
	}
	if err := b.cluster.AddTopology(ctx, pool); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{h.populate, h.single, h.bare, h.flood, h.storm, h.outbreak, h.clean} {
		if err := errors.Join(step(ctx), b.cluster.Err()); err != nil {
			return err
		}
	}
	return nil
}

// send has a node's agent publish a report.
func (h *healthBench) send(ctx context.Context, r *report) error {
	fault := v1alpha1.HealthReport{
		Source: v1alpha1.SourceDCGM, Entity: "gpu/GPU-0", Signal: "XID79", State: r.state, Since: metav1.Now(),
		Message: "the GPU has fallen off the bus", Unused: r.pod == "",
	}
	if r.pod != "" {
		fault.Pods = []string{namespace + "/" + r.pod}
	}
	h.watch.sends(r, time.Now())
	return h.publish(ctx, r.node, fault)
}

func (h *healthBench) publish(ctx context.Context, node string, faults ...v1alpha1.HealthReport) error {
	source := v1alpha1.HealthSource{State: v1alpha1.HealthHealthy}
	_, err := h.agents[node].Publish(ctx, time.Now(), source, faults)
	return err
}

// clear has nodes reported well, and waits until the manager has left nothing undone.
func (h *healthBench) clear(ctx context.Context, nodes []string) error {
	if err := parallel(len(nodes), func(i int) error { return h.publish(ctx, nodes[i]) }); err != nil {
		return err
	}
	return h.await(ctx, "all nodes are well and all gangs run", func(ctx context.Context) (bool, error) {
		if !h.watch.areWell(nodes) {
			return false, nil
		}
		return h.quiet(ctx)
	})
}

// quiet reports whether no gang moves a pod, and the manager has written nothing for a while.
func (h *healthBench) quiet(ctx context.Context) (bool, error) {
	mark := h.audit.mark()
	jobs := &v1alpha1.TrainingJobList{}
	if err := h.cluster.Client().List(ctx, jobs, client.InNamespace(namespace)); err != nil {
		return false, err
	}
	if slices.ContainsFunc(jobs.Items, func(j v1alpha1.TrainingJob) bool { return moves(&j) }) {
		return false, nil
	}
	err := sleep(ctx, 2*settle)
	return h.audit.mark() == mark, err
}

// moves reports whether a gang is not whole, or about to lose a pod. An incident without a step is
// one that the job's breaker holds back: it waits for people.
func moves(job *v1alpha1.TrainingJob) bool {
	acts := func(i v1alpha1.Incident) bool { return i.Outcome == "" && len(i.Steps) > 0 }
	return !meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionRunning) || slices.ContainsFunc(job.Status.Incidents, acts)
}

func (h *healthBench) await(ctx context.Context, what string, holds func(context.Context) (bool, error)) error {
	if err := wait.PollUntilContextTimeout(ctx, glance, healthTimeout, true, holds); err != nil {
		return fmt.Errorf("waiting until %s: %w", what, err)
	}
	return nil
}

// pods are those that run now, by node.
func (h *healthBench) pods() map[string]life {
	out := map[string]life{}
	for _, gang := range h.gangs {
		for _, pod := range h.recorder.present(gang.GetName()) {
			out[pod.node] = pod
		}
	}
	return out
}

// single reports on one pod of each gang after the other, and does so again.
func (h *healthBench) single(ctx context.Context) error {
	w := &h.results.health.single
	for round := range singles {
		mark := h.audit.mark()
		var sent reports
		for i, gang := range h.gangs {
			pod := h.recorder.present(gang.GetName())[round%healthPods]
			r := &report{node: pod.node, pod: pod.name, state: v1alpha1.HealthStateFailed}
			sent = append(sent, r)
			h.watch.expect(sent)
			if err := h.send(ctx, r); err != nil {
				return err
			}
			if err := sleep(ctx, singlePause+singlePause*time.Duration(i%5)/10); err != nil { // in step with nobody
				return err
			}
		}
		if err := h.finish(ctx, w, sent, mark); err != nil {
			return err
		}
		if err := h.clear(ctx, sent.nodes()); err != nil {
			return err
		}
	}
	say("health, single reports: %s", w)
	return nil
}

// flood has all nodes fall ill within seconds, so that no job has to do anything.
func (h *healthBench) flood(ctx context.Context) error {
	return h.rage(ctx, &h.results.health.flood, h.reports(nil))
}

// storm has all nodes fall ill within seconds, and a tenth of them so that a gang has to move a pod.
func (h *healthBench) storm(ctx context.Context) error {
	hit := map[string]string{}
	for _, gang := range h.gangs {
		pod := h.recorder.present(gang.GetName())[singles%healthPods]
		hit[pod.node] = pod.name
	}
	return h.rage(ctx, &h.results.health.storm, h.reports(hit))
}

// reports are one for each node: that a GPU has failed which a pod uses, or that one is
// degraded which nobody does.
func (h *healthBench) reports(hit map[string]string) reports {
	var all reports
	for _, node := range h.pool.NodeNames() {
		r := &report{node: node, pod: hit[node], state: v1alpha1.HealthStateDegraded}
		if r.pod != "" {
			r.state = v1alpha1.HealthStateFailed
		}
		all = append(all, r)
	}
	return all
}

// outbreak has a GPU of every node fail within seconds, under the default limits.
func (h *healthBench) outbreak(ctx context.Context) error {
	policy := unlimited
	policy.Breaker = v1alpha1.Breaker{AcknowledgedTime: new(metav1.Now())} // the windows begin again
	if err := h.setPolicy(ctx, policy); err != nil {
		return err
	}
	if err := sleep(ctx, 2*settle); err != nil { // times of verdicts are whole seconds
		return err
	}
	pods := h.pods()
	var all reports
	for _, node := range h.pool.NodeNames() {
		all = append(all, &report{node: node, pod: pods[node].name, state: v1alpha1.HealthStateFailed})
	}
	return h.rage(ctx, &h.results.health.outbreak, all)
}

// rage sends all reports, and sees what the manager makes of them.
func (h *healthBench) rage(ctx context.Context, w *wave, all reports) error {
	mark := h.audit.mark()
	ours, servers := h.processor(operator.Name), h.processor(cluster.APIServer)
	if err := h.pour(ctx, w, all); err != nil {
		return err
	}
	if err := h.finish(ctx, w, all, mark); err != nil {
		return err
	}
	w.processor, w.server, w.memory = h.processor(operator.Name)-ours, h.processor(cluster.APIServer)-servers, h.memory()
	say("health, %d reports within %s s: %s", len(all), seconds(w.written), w)
	return h.clear(ctx, all.nodes())
}

// pour sends all reports at an even pace.
func (h *healthBench) pour(ctx context.Context, w *wave, all reports) error {
	chance := rand.New(rand.NewPCG(1, 1))
	chance.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	h.watch.expect(all)
	began := time.Now()
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, r := range all {
		group.Go(func() {
			at := stormLength * time.Duration(i) / time.Duration(len(all))
			errs[i] = errors.Join(sleep(ctx, time.Until(began.Add(at))), h.send(ctx, r))
		})
	}
	group.Wait()
	w.written = time.Since(began)
	return errors.Join(errs...)
}

// finish waits until the manager is through with the reports, and adds what it did.
func (h *healthBench) finish(ctx context.Context, w *wave, sent reports, mark int64) error {
	err := h.await(ctx, "all verdicts are in and all gangs run", func(ctx context.Context) (bool, error) {
		if !h.watch.areIn(sent) {
			return false, nil
		}
		return h.quiet(ctx)
	})
	if err != nil {
		return err
	}
	writes, err := h.audit.writes(mark)
	if err != nil {
		return err
	}
	h.watch.stop()
	sent.join(writes)
	w.reports, w.writes = append(w.reports, sent...), w.writes.plus(writes)
	return nil
}

// parallel does something to all of so many, several at a time.
func parallel(count int, do func(int) error) error {
	var group sync.WaitGroup
	errs := make([]error, publishers)
	for i := range publishers {
		group.Go(func() {
			for at := i; at < count; at += publishers {
				errs[i] = errors.Join(errs[i], do(at))
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
